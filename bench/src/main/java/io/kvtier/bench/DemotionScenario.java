package io.kvtier.bench;

import static java.util.stream.Collectors.joining;

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
import java.util.stream.IntStream;

/**
 * Three times as many blocks as the host tier holds, put as fast as a client can: the SSD tier must
 * take what falls out, and the disk alone shall be the limit. All blocks are read back and compared
 * to the byte.
 */
final class DemotionScenario {
  private static final String[] ADMISSIONS = {"evicted", "all"};
  private static final int[] DIRECTORIES = {1, 2, 4, 8};
  private static final int BLOCK_BYTES = 1 << 20;
  private static final int BLOCKS = 3072;
  private static final int BATCH = 32;
  private static final int FIO_DEPTH = 16;
  private static final long HOST_BYTES = 1L << 30;
  private static final long SSD_BYTES = 8L << 30;
  private static final long FIO_BYTES = 2L << 30;
  private static final long TAG = 3;

  /** Each block is a window into one random buffer, a line further on than the one before it. */
  private static final int SHIFT_BYTES = 64;

  private static final Options PATIENT = Options.DEFAULT.withTimeout(Duration.ofMinutes(2));

  private final Setup setup;
  private final Path parent;
  private final Arena arena = Arena.ofShared();
  private final MemorySegment contents =
      arena.allocate(BLOCK_BYTES + (long) BLOCKS * SHIFT_BYTES, 4096);
  private final MemorySegment read = arena.allocate((long) BATCH * BLOCK_BYTES, 4096);

  DemotionScenario(Setup setup, Path parent) {
    this.setup = setup;
    this.parent = parent;
    SplittableRandom random = new SplittableRandom(TAG);
    for (long at = 0; at < contents.byteSize(); at += Long.BYTES) {
      contents.set(ValueLayout.JAVA_LONG, at, random.nextLong());
    }
  }

  /** The ways of admission, in one directory. */
  void run(Report report) throws Exception {
    within((folder, fio) -> {
      for (String admission : ADMISSIONS) {
        run(report, "demotion_" + admission, admission, List.of(folder.resolve(admission)), fio);
      }
    });
  }

  /** The blocks striped over several directories: of one disk here, so none is a gain. */
  void directories(Report report) throws Exception {
    within((folder, fio) -> {
      for (int count : DIRECTORIES) {
        List<Path> directories =
            IntStream.range(0, count).mapToObj(i -> folder.resolve(count + "-" + i)).toList();
        run(report, "scaling_directories_" + count, "all", directories, fio);
      }
    });
  }

  private interface Part {
    void run(Path folder, Fio fio) throws Exception;
  }

  private void within(Part part) throws Exception {
    Path folder =
        Files.createTempDirectory(Files.createDirectories(parent), "kvtier-bench-demotion-");
    try {
      part.run(folder, new Fio(folder.resolve("fio.dat"), FIO_BYTES));
    } finally {
      SsdScenario.delete(folder);
      arena.close();
    }
  }

  private void run(Report report, String name, String admission, List<Path> directories, Fio fio)
      throws Exception {
    Rounds rounds;
    try (DaemonProcess daemon =
            new DaemonProcess(
                setup.root(),
                HOST_BYTES,
                "ssd.bytes=" + SSD_BYTES,
                "ssd.directory=" + directories.stream().map(Path::toString).collect(joining(",")),
                "ssd.admission=" + admission);
        KvtierClient client = daemon.connect()) {
      Namespace namespace = client.namespace("bench-demotion", BLOCK_BYTES, Map.of());
      rounds =
          Rounds.measure(
              // A disk is slower where nothing was written yet.
              1,
              setup.diskRounds(),
              into -> {
                into.add("fio", fio.write(BLOCK_BYTES, FIO_DEPTH, setup.diskSliceNs()).gbps());
                long begun = System.nanoTime();
                putAll(client, namespace);
                into.add("put", gbps(begun));
                requireOk("flush", client.blocking().flush(namespace, PATIENT));
                into.add("stored", gbps(begun));
                into.add("fio", fio.write(BLOCK_BYTES, FIO_DEPTH, setup.diskSliceNs()).gbps());
                begun = System.nanoTime();
                checkAll(client, namespace);
                into.add("get", gbps(begun));
                requireOk("clear", client.blocking().clear(namespace, PATIENT));
              });
    }
    String limit = "fio, " + fio.engine() + ", direct, depth " + FIO_DEPTH;
    for (String what : new String[] {"put", "stored"}) {
      report.add(
          new Row(
              name + "_" + what + "_gbps",
              rounds.median(what),
              "GB/s",
              limit,
              rounds.median("fio")));
    }
    report.add(Row.plain(name + "_get_gbps", rounds.median("get"), "GB/s"));
    for (Path directory : directories) {
      SsdScenario.delete(directory);
    }
  }

  private static double gbps(long begun) {
    return (double) BLOCKS * BLOCK_BYTES / (System.nanoTime() - begun);
  }

  private MemorySegment content(int number) {
    return contents.asSlice((long) number * SHIFT_BYTES, BLOCK_BYTES);
  }

  private static Keys keys(List<Integer> numbers) {
    MemorySegment keys = MemorySegment.ofArray(new long[numbers.size() * BenchKeys.KEY_BYTES / 8]);
    for (int i = 0; i < numbers.size(); i++) {
      BenchKeys.put(keys, (long) i * BenchKeys.KEY_BYTES, TAG, numbers.get(i));
    }
    return Keys.wrap(keys, BenchKeys.KEY_BYTES);
  }

  private void putAll(KvtierClient client, Namespace namespace) {
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
          throw new IllegalStateException("the put of block " + batch.get(i) + " ended " + status);
        }
      }
      batch = refused;
    }
  }

  private void checkAll(KvtierClient client, Namespace namespace) {
    for (int from = 0; from < BLOCKS; from += BATCH) {
      List<Integer> batch = new ArrayList<>();
      List<MemorySegment> into = new ArrayList<>();
      for (int i = 0; i < BATCH; i++) {
        batch.add(from + i);
        into.add(read.asSlice((long) i * BLOCK_BYTES, BLOCK_BYTES));
      }
      read.fill((byte) 0);
      BatchResult result = client.blocking().get(namespace, keys(batch), into, PATIENT);
      for (int i = 0; i < BATCH; i++) {
        if (result.blocks().status(i) != Status.OK) {
          throw new IllegalStateException(
              "block " + batch.get(i) + " is " + result.blocks().status(i) + " after its put");
        }
        if (into.get(i).mismatch(content(batch.get(i))) >= 0) {
          throw new IllegalStateException("block " + batch.get(i) + " has wrong bytes");
        }
      }
    }
  }

  private static void requireOk(String what, ValueResult result) {
    if (result.status() != Status.OK) {
      throw new IllegalStateException(what + " ended " + result);
    }
  }
}
