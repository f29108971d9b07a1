package io.kvtier.bench;

import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/**
 * Puts into a node whose memory and SSD are full, as they are most of the time: for each block that
 * comes one leaves. The same puts into an SSD tier with room are the limit. What was put last is
 * read back and compared to the byte.
 */
final class FullTierScenario {
  private static final int BLOCK_BYTES = 64 << 10;
  private static final int BLOCKS = 16384;
  private static final int BATCH = 64;

  /** Of the newest blocks: fewer than the host tier holds. */
  private static final int CHECKED = 1024;

  private static final long HOST_BYTES = 256L << 20;
  private static final long FULL_BYTES = 512L << 20;
  private static final long ROOMY_BYTES = 8L << 30;

  private final Setup setup;
  private final Path parent;

  FullTierScenario(Setup setup, Path parent) {
    this.setup = setup;
    this.parent = parent;
  }

  void run(Report report) throws Exception {
    Path folder = Files.createTempDirectory(Files.createDirectories(parent), "kvtier-bench-full-");
    try (DaemonProcess full = daemon(folder.resolve("full"), FULL_BYTES);
        DaemonProcess roomy = daemon(folder.resolve("roomy"), ROOMY_BYTES);
        Puts intoFull = new Puts(full);
        Puts intoRoomy = new Puts(roomy)) {
      // The first round, which is not counted, fills it.
      Rounds rounds =
          Rounds.measure(
              1,
              setup.diskRounds(),
              into -> {
                into.add("full", intoFull.gbps());
                into.add("roomy", intoRoomy.gbps());
                intoRoomy.clear();
              });
      report.add(
          new Row(
              "demotion_into_full_stored_gbps",
              rounds.median("full"),
              "GB/s",
              "the same, of SSD with room",
              rounds.median("roomy")));
    } finally {
      SsdScenario.delete(folder);
    }
  }

  private DaemonProcess daemon(Path directory, long ssdBytes) throws Exception {
    return new DaemonProcess(
        setup.root(), HOST_BYTES, "ssd.bytes=" + ssdBytes + "B", "ssd.directory=" + directory);
  }

  /** One daemon's client, whose blocks are new ones each time. */
  private static final class Puts implements AutoCloseable {
    private final NumberedBlocks blocks = new NumberedBlocks(BLOCK_BYTES, BLOCKS, BATCH);
    private final KvtierClient client;
    private final Namespace namespace;
    private long tag;

    Puts(DaemonProcess daemon) throws Exception {
      client = daemon.connect();
      namespace = client.namespace("bench-full", BLOCK_BYTES, Map.of("purpose", "kvtier bench"));
    }

    /** All bytes, until a flush after the last put was answered: all are on SSD, or were. */
    double gbps() {
      tag++;
      long begun = System.nanoTime();
      blocks.putAll(client, namespace, tag);
      NumberedBlocks.requireOk("flush", client.blocking().flush(namespace, NumberedBlocks.PATIENT));
      double gbps = (double) blocks.bytes() / (System.nanoTime() - begun);
      blocks.checkNewest(client, namespace, tag, CHECKED);
      return gbps;
    }

    void clear() {
      NumberedBlocks.requireOk("clear", client.blocking().clear(namespace, NumberedBlocks.PATIENT));
    }

    @Override
    public void close() {
      client.close();
      blocks.close();
    }
  }
}
