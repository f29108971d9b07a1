package io.kvtier.bench;

import io.kvtier.client.BlockLease;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.LookupResult;
import io.kvtier.client.Options;
import io.kvtier.protocol.SocketPaths;
import io.kvtier.protocol.Status;
import java.util.List;

/**
 * A modest tenant, which gets blocks one by one over the local socket, beside a greedy one, which
 * puts more than it may have, over and over, over gRPC: in one daemon, against each in a daemon of
 * its own. So the machine is as busy both times, and what differs is what sharing a daemon costs.
 */
final class TenantsScenario {
  private static final int MODEST_BLOCK_BYTES = 64 << 10;
  private static final int GREEDY_BLOCK_BYTES = 1 << 20;
  private static final int GREEDY_BATCH = 8;
  private static final long SHARE_BYTES = 256L << 20;
  private static final int FILL_BATCH = 64;

  private static final String ALONE = "modest_alone";
  private static final String APART = "modest_with_greedy_in_another_daemon";
  private static final String TOGETHER = "modest_with_greedy_in_the_same_daemon";

  private final Setup setup;
  private final Sampler sampler = new Sampler();
  private int turn;

  TenantsScenario(Setup setup) {
    this.setup = setup;
  }

  void run(Report report) throws Exception {
    String tenant =
        "tenants=name=modest users=" + SocketPaths.uid() + " host_bytes=" + SHARE_BYTES + "B";
    int blocks = (int) (SHARE_BYTES / MODEST_BLOCK_BYTES);
    Rounds rounds;
    long resident;
    try (DaemonProcess shared =
            new DaemonProcess(
                setup.root(), 2 * SHARE_BYTES, tenant, "grpc.enabled=true", "grpc.port=0");
        DaemonProcess own = new DaemonProcess(setup.root(), SHARE_BYTES);
        DaemonProcess others =
            new DaemonProcess(setup.root(), SHARE_BYTES, "grpc.enabled=true", "grpc.port=0");
        KvtierClient inShared = shared.connect();
        KvtierClient inOwn = own.connect();
        JavaCopies ofShared = new JavaCopies(inShared, MODEST_BLOCK_BYTES, blocks, FILL_BATCH);
        JavaCopies ofOwn = new JavaCopies(inOwn, MODEST_BLOCK_BYTES, blocks, FILL_BATCH)) {
      rounds =
          Rounds.measure(
              setup.warmUps(),
              setup.rounds(),
              into -> {
                acquire(into, ALONE, inOwn, ofOwn);
                try (GreedyPuts greedy = greedy(others)) {
                  acquire(into, APART, inOwn, ofOwn);
                  greedy.stop();
                }
                try (GreedyPuts greedy = greedy(shared)) {
                  acquire(into, TOGETHER, inShared, ofShared);
                  greedy.stop();
                }
              });
      resident = resident(inShared, ofShared);
    }
    for (String what : List.of(ALONE, APART)) {
      report.add(Row.plain(what + "_p50_us", rounds.median(what + "_p50_us"), "us"));
      report.add(Row.plain(what + "_p99_us", rounds.median(what + "_p99_us"), "us"));
    }
    for (String percentile : List.of("_p50_us", "_p99_us")) {
      String limit = APART + percentile;
      report.add(rounds.row(TOGETHER + percentile, "us", limit, limit, us -> us));
    }
    report.add(
        new Row(
            "modest_resident_bytes_after",
            (double) resident * MODEST_BLOCK_BYTES,
            "B",
            "its share",
            SHARE_BYTES));
  }

  private void acquire(Rounds into, String what, KvtierClient client, JavaCopies blocks)
      throws Exception {
    List<Keys> keys = blocks.getKeys();
    try (BlockLease lease = client.blocking().newLease()) {
      sampler.time(
          setup.sliceNs(),
          () -> {
            boolean _ = lease.release();
            turn = (turn + 1) % keys.size();
            Status status = lease.acquire(blocks.gets(), keys.get(turn), 0, Options.DEFAULT);
            if (status != Status.OK) {
              throw new IllegalStateException("a block of the modest tenant is " + status);
            }
          });
    }
    into.add(what + "_p50_us", sampler.us(0.5));
    into.add(what + "_p99_us", sampler.us(0.99));
  }

  /** Puts twice what it may have, again and again. */
  private static GreedyPuts greedy(DaemonProcess daemon) throws Exception {
    int blocks = (int) (2 * SHARE_BYTES / GREEDY_BLOCK_BYTES);
    return new GreedyPuts(daemon.grpcAddress(), GREEDY_BLOCK_BYTES, blocks, GREEDY_BATCH);
  }

  private static long resident(KvtierClient client, JavaCopies blocks) {
    long resident = 0;
    for (Keys keys : blocks.getKeys()) {
      LookupResult found = client.blocking().lookup(blocks.gets(), keys);
      resident += found.run();
    }
    return resident;
  }
}
