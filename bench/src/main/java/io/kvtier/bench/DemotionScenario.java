package io.kvtier.bench;

import static java.util.stream.Collectors.joining;

import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
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

  private final Setup setup;
  private final Path parent;
  private final NumberedBlocks blocks = new NumberedBlocks(BLOCK_BYTES, BLOCKS, BATCH);

  DemotionScenario(Setup setup, Path parent) {
    this.setup = setup;
    this.parent = parent;
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
      blocks.close();
    }
  }

  private void run(Report report, String name, String admission, List<Path> directories, Fio fio)
      throws Exception {
    Rounds rounds;
    try (DaemonProcess daemon =
            new DaemonProcess(
                setup.root(),
                HOST_BYTES,
                "ssd.bytes=" + SSD_BYTES + "B",
                "ssd.directory=" + directories.stream().map(Path::toString).collect(joining(",")),
                "ssd.admission=" + admission);
        KvtierClient client = daemon.connect()) {
      Namespace namespace =
          client.namespace("bench-demotion", BLOCK_BYTES, Map.of("purpose", "kvtier bench"));
      rounds =
          Rounds.measure(
              // A disk is slower where nothing was written yet.
              1,
              setup.diskRounds(),
              into -> {
                into.add("fio", fio.write(BLOCK_BYTES, FIO_DEPTH, setup.diskSliceNs()).gbps());
                long begun = System.nanoTime();
                blocks.putAll(client, namespace, TAG);
                into.add("put", gbps(begun));
                NumberedBlocks.requireOk(
                    "flush", client.blocking().flush(namespace, NumberedBlocks.PATIENT));
                into.add("stored", gbps(begun));
                into.add("fio", fio.write(BLOCK_BYTES, FIO_DEPTH, setup.diskSliceNs()).gbps());
                begun = System.nanoTime();
                blocks.checkAll(client, namespace, TAG);
                into.add("get", gbps(begun));
                NumberedBlocks.requireOk(
                    "clear", client.blocking().clear(namespace, NumberedBlocks.PATIENT));
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

  private double gbps(long begun) {
    return (double) blocks.bytes() / (System.nanoTime() - begun);
  }
}
