package io.kvtier.bench;

import io.kvtier.client.KvtierClient;
import io.kvtier.tiers.ssd.SsdEngine;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;

/**
 * The SSD tier's pipeline against fio on the same disk, and what its writes take from puts into
 * host memory.
 */
final class SsdScenario {
  /**
   * A block size.
   *
   * @param readDepth as many reads as the pipeline leaves with the device
   * @param writeDepth as many writes
   */
  private record Size(String name, int bytes, int readDepth, int writeDepth) {}

  private static final Size[] SIZES = {
    new Size("256KiB", 256 << 10, 32, 16),
    new Size("1MiB", 1 << 20, 16, 16),
    new Size("4MiB", 4 << 20, 4, 4)
  };

  /** The default of {@code ssd.queue_depth}. */
  private static final int DEPTH = 256;

  private static final long HOST_BYTES = 512L << 20;
  private static final long FILE_BYTES = 2L << 30;
  private static final long PUT_HOST_BYTES = 1L << 30;
  private static final int PUT_BLOCK_BYTES = 1 << 20;
  private static final int PUT_BLOCKS = 256;
  private static final int PUT_BATCH = 8;
  private static final int FIO_DEPTH = 16;
  private static final long FIO_START_NS = 300_000_000;

  private final Setup setup;
  private final Path parent;
  private final SsdEngine engine;

  SsdScenario(Setup setup, Path parent, SsdEngine engine) {
    this.setup = setup;
    this.parent = parent;
    this.engine = engine;
  }

  void run(Report report) throws Exception {
    Path folder = Files.createTempDirectory(Files.createDirectories(parent), "kvtier-bench-ssd-");
    try {
      Fio fio = new Fio(folder.resolve("fio.dat"), FILE_BYTES);
      for (Size size : SIZES) {
        run(report, size, folder, fio);
      }
      putsDuringWrites(report, folder, fio);
    } finally {
      delete(folder);
    }
  }

  private void run(Report report, Size size, Path folder, Fio fio) throws Exception {
    long slice = setup.diskSliceNs();
    Rounds rounds;
    String name;
    try (SsdBlocks blocks =
        new SsdBlocks(
            folder.resolve("slots"), engine, size.bytes(), DEPTH, HOST_BYTES, FILE_BYTES)) {
      name = "fio, " + fio.engine() + ", direct, depth ";
      if (!blocks.isDirect()) {
        throw new IOException(folder + " has no direct IO; name another folder with --directory");
      }
      rounds =
          Rounds.measure(
              1,
              setup.diskRounds(),
              into -> {
                add(into, "fio_write", fio.write(size.bytes(), size.writeDepth(), slice));
                add(into, "ssd_write", blocks.write(slice));
                add(into, "ssd_write", blocks.write(slice));
                add(into, "fio_write", fio.write(size.bytes(), size.writeDepth(), slice));
                add(into, "fio_read", fio.read(size.bytes(), size.readDepth(), slice));
                add(into, "ssd_read", blocks.read(slice));
                add(into, "ssd_read", blocks.read(slice));
                add(into, "fio_read", fio.read(size.bytes(), size.readDepth(), slice));
              });
    }
    for (String way : new String[] {"write", "read"}) {
      int depth = way.equals("write") ? size.writeDepth() : size.readDepth();
      for (String what : new String[] {"gbps", "cpu_s_per_gb"}) {
        report.add(
            new Row(
                "ssd_" + way + "_" + size.name() + "_" + what,
                rounds.median("ssd_" + way + "_" + what),
                what.equals("gbps") ? "GB/s" : "s/GB",
                name + depth,
                rounds.median("fio_" + way + "_" + what)));
      }
    }
  }

  private static void add(Rounds into, String name, Fio.Rate rate) {
    into.add(name + "_gbps", rate.gbps());
    into.add(name + "_cpu_s_per_gb", rate.processorSPerGb());
  }

  private static void add(Rounds into, String name, SsdBlocks.Rate rate) {
    into.add(name + "_gbps", rate.gbps());
    into.add(name + "_cpu_s_per_gb", rate.processorSPerGb());
  }

  private void putsDuringWrites(Report report, Path folder, Fio fio) throws Exception {
    long slice = setup.sliceNs();
    // As long as fio takes to begin, and to end.
    long fioSlice = slice + 2 * FIO_START_NS;
    Rounds rounds;
    try (DaemonProcess daemon = new DaemonProcess(setup.root(), PUT_HOST_BYTES);
        KvtierClient client = daemon.connect();
        JavaCopies copies = new JavaCopies(client, PUT_BLOCK_BYTES, PUT_BLOCKS, PUT_BATCH);
        ExecutorService background = Executors.newSingleThreadExecutor();
        SsdBlocks blocks =
            new SsdBlocks(
                folder.resolve("slots"), engine, PUT_BLOCK_BYTES, DEPTH, HOST_BYTES, FILE_BYTES)) {
      rounds =
          Rounds.measure(
              setup.warmUps(),
              setup.rounds(),
              into -> {
                into.add("alone", copies.put(slice).gbps());
                AtomicBoolean running = new AtomicBoolean(true);
                Future<SsdBlocks.Rate> writes = background.submit(() -> blocks.writeWhile(running));
                try {
                  into.add("beside", copies.put(slice).gbps());
                } finally {
                  running.set(false);
                }
                into.add("writes", writes.get().gbps());
                into.add("alone", copies.put(slice).gbps());
                Future<Fio.Rate> bare =
                    background.submit(() -> fio.write(PUT_BLOCK_BYTES, FIO_DEPTH, fioSlice));
                Thread.sleep(FIO_START_NS / 1_000_000);
                into.add("beside_fio", copies.put(slice).gbps());
                into.add("fio_writes", bare.get().gbps());
              });
    }
    report.add(
        new Row(
            "host_put_during_ssd_writes_gbps",
            rounds.median("beside"),
            "GB/s",
            "the same puts without SSD writes",
            rounds.median("alone")));
    report.add(
        new Row(
            "host_put_during_fio_writes_gbps",
            rounds.median("beside_fio"),
            "GB/s",
            "the same puts without SSD writes",
            rounds.median("alone")));
    report.add(
        new Row(
            "ssd_write_during_host_puts_gbps",
            rounds.median("writes"),
            "GB/s",
            "fio's writes beside the same puts",
            rounds.median("fio_writes")));
  }

  static void delete(Path folder) throws IOException {
    List<Path> left;
    try (Stream<Path> paths = Files.walk(folder)) {
      left = paths.sorted(Comparator.reverseOrder()).toList();
    }
    for (Path path : left) {
      Files.delete(path);
    }
  }
}
