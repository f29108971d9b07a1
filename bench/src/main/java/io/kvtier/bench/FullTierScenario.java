package io.kvtier.bench;

import io.kvtier.client.BatchResult;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.client.ValueResult;
import io.kvtier.protocol.Status;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;

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
  private static final int SHIFT_BYTES = 64;
  private static final Options PATIENT = Options.DEFAULT.withTimeout(Duration.ofMinutes(2));

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
        setup.root(), HOST_BYTES, "ssd.bytes=" + ssdBytes, "ssd.directory=" + directory);
  }

  /** One daemon's client, whose blocks are new ones each time. */
  private static final class Puts implements AutoCloseable {
    private final Arena arena = Arena.ofShared();
    private final MemorySegment contents =
        arena.allocate(BLOCK_BYTES + (long) BLOCKS * SHIFT_BYTES, 4096);
    private final MemorySegment read = arena.allocate((long) BATCH * BLOCK_BYTES, 4096);
    private final KvtierClient client;
    private final Namespace namespace;
    private long tag;

    Puts(DaemonProcess daemon) throws Exception {
      client = daemon.connect();
      namespace = client.namespace("bench-full", BLOCK_BYTES, Map.of());
      SplittableRandom random = new SplittableRandom(BLOCKS);
      for (long at = 0; at < contents.byteSize(); at += Long.BYTES) {
        contents.set(ValueLayout.JAVA_LONG, at, random.nextLong());
      }
    }

    /** All bytes, until a flush after the last put was answered: all are on SSD, or were. */
    double gbps() {
      tag++;
      long begun = System.nanoTime();
      putAll();
      require(client.blocking().flush(namespace, PATIENT));
      double gbps = (double) BLOCKS * BLOCK_BYTES / (System.nanoTime() - begun);
      checkNewest();
      return gbps;
    }

    void clear() {
      require(client.blocking().clear(namespace, PATIENT));
    }

    private static void require(ValueResult result) {
      if (result.status() != Status.OK) {
        throw new IllegalStateException("the daemon answered " + result);
      }
    }

    private MemorySegment content(int number) {
      return contents.asSlice((long) number * SHIFT_BYTES, BLOCK_BYTES);
    }

    private Keys keys(List<Integer> numbers) {
      MemorySegment keys =
          MemorySegment.ofArray(new long[numbers.size() * BenchKeys.KEY_BYTES / 8]);
      for (int i = 0; i < numbers.size(); i++) {
        BenchKeys.put(keys, (long) i * BenchKeys.KEY_BYTES, tag, numbers.get(i));
      }
      return Keys.wrap(keys, BenchKeys.KEY_BYTES);
    }

    private void putAll() {
      List<Integer> batch = new ArrayList<>();
      int next = 0;
      while (next < BLOCKS || !batch.isEmpty()) {
        while (batch.size() < BATCH && next < BLOCKS) {
          batch.add(next++);
        }
        BatchResult result =
            client
                .blocking()
                .put(namespace, keys(batch), batch.stream().map(this::content).toList(), PATIENT);
        List<Integer> refused = new ArrayList<>();
        for (int i = 0; i < batch.size(); i++) {
          Status status = result.blocks().status(i);
          if (status == Status.BUSY) {
            refused.add(batch.get(i));
          } else if (status != Status.OK) {
            throw new IllegalStateException("the put of a block ended " + status);
          }
        }
        batch = refused;
      }
    }

    private void checkNewest() {
      for (int from = BLOCKS - CHECKED; from < BLOCKS; from += BATCH) {
        List<Integer> batch = new ArrayList<>();
        List<MemorySegment> into = new ArrayList<>();
        for (int i = 0; i < BATCH; i++) {
          batch.add(from + i);
          into.add(read.asSlice((long) i * BLOCK_BYTES, BLOCK_BYTES));
        }
        read.fill((byte) 0);
        BatchResult result = client.blocking().get(namespace, keys(batch), into, PATIENT);
        for (int i = 0; i < BATCH; i++) {
          if (result.blocks().status(i) != Status.OK
              || into.get(i).mismatch(content(batch.get(i))) >= 0) {
            throw new IllegalStateException(
                "block " + batch.get(i) + " is " + result.blocks().status(i) + ", or others");
          }
        }
      }
    }

    @Override
    public void close() {
      client.close();
      arena.close();
    }
  }
}
