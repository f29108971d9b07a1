package io.kvtier.bench;

import com.sun.management.ThreadMXBean;
import io.kvtier.tiers.ledger.ChronicleLedger;
import io.kvtier.tiers.ledger.Ledger;
import io.kvtier.tiers.ledger.LedgerEntry;
import io.kvtier.tiers.ledger.RocksLedger;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.SplittableRandom;
import java.util.stream.Stream;

/**
 * The ledgers with a million rows: RocksDB's in java.io.tmpdir, and Chronicle's in /dev/shm if
 * there is one. The first opening of a ledger also loads the classes of its library.
 */
final class LedgerBench {
  private static final int ROWS = 1_000_000;
  private static final int BATCH = 256;
  private static final double MS = 1e6;

  private final Report report;
  private final int rows;
  private final SplittableRandom random = new SplittableRandom(1);
  private final LedgerEntry entry = new LedgerEntry();

  LedgerBench(Report report, boolean quick) {
    this.report = report;
    rows = quick ? ROWS / 10 : ROWS;
  }

  void run() throws IOException {
    Path shared = Path.of("/dev/shm");
    Path disk = Files.createTempDirectory("kvtier-bench-ledger");
    Path memory =
        Files.isWritable(shared) ? Files.createTempDirectory(shared, "kvtier-bench-ledger") : disk;
    try {
      rocks(disk);
      chronicle(memory.resolve("host"));
    } finally {
      delete(disk);
      delete(memory);
    }
  }

  private void rocks(Path directory) throws IOException {
    long started = System.nanoTime();
    try (RocksLedger ledger = new RocksLedger(directory)) {
      add("ledger_rocks_open_fresh_ms", (System.nanoTime() - started) / MS, "ms");
      started = System.nanoTime();
      for (int place = 0; place < rows; place++) {
        ledger.record(place, next());
        if (place % BATCH == BATCH - 1) {
          ledger.commit(false);
        }
      }
      ledger.commit(true);
      add("ledger_rocks_fill_ns_a_row", (System.nanoTime() - started) / (double) rows, "ns");
      for (int batch : new int[] {1, 32, 256}) {
        add("ledger_rocks_commit_" + batch + "_us", commit(ledger, batch, false, 500), "us");
        add("ledger_rocks_commit_" + batch + "_sync_us", commit(ledger, batch, true, 50), "us");
      }
      add("ledger_rocks_memory_mib", ledger.memoryBytes() / (double) (1 << 20), "MiB");
    }
    started = System.nanoTime();
    try (RocksLedger ledger = new RocksLedger(directory)) {
      add("ledger_rocks_open_ms", (System.nanoTime() - started) / MS, "ms");
      add("ledger_rocks_scan_ms", scan(ledger), "ms");
      add("ledger_rocks_bytes_a_row", ledger.bytes() / (double) rows, "B");
    }
  }

  private void chronicle(Path file) throws IOException {
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    long started = System.nanoTime();
    try (ChronicleLedger ledger = new ChronicleLedger(file, rows, 0)) {
      add("ledger_chronicle_open_fresh_ms", (System.nanoTime() - started) / MS, "ms");
      for (int round = 0; round < 2; round++) {
        long allocated = threads.getCurrentThreadAllocatedBytes();
        started = System.nanoTime();
        for (int place = 0; place < rows; place++) {
          ledger.record(place, next());
        }
        if (round == 1) {
          add("ledger_chronicle_record_ns", (System.nanoTime() - started) / (double) rows, "ns");
          allocated = threads.getCurrentThreadAllocatedBytes() - allocated;
          add("ledger_chronicle_record_allocated_bytes", allocated / (double) rows, "B");
        }
      }
      long allocated = threads.getCurrentThreadAllocatedBytes();
      started = System.nanoTime();
      for (int place = 0; place < rows / 2; place++) {
        ledger.forget(place);
      }
      add("ledger_chronicle_forget_ns", (System.nanoTime() - started) / (rows / 2.0), "ns");
      allocated = threads.getCurrentThreadAllocatedBytes() - allocated;
      add("ledger_chronicle_forget_allocated_bytes", allocated / (rows / 2.0), "B");
      for (int place = 0; place < rows / 2; place++) {
        ledger.record(place, next());
      }
      add("ledger_chronicle_bytes_a_row", ledger.bytes() / (double) rows, "B");
    }
    started = System.nanoTime();
    try (ChronicleLedger ledger = new ChronicleLedger(file, rows, 0)) {
      add("ledger_chronicle_open_ms", (System.nanoTime() - started) / MS, "ms");
      add("ledger_chronicle_scan_ms", scan(ledger), "ms");
    }
    Files.delete(file.resolveSibling("host.clean"));
    started = System.nanoTime();
    try (ChronicleLedger ledger = new ChronicleLedger(file, rows, 0)) {
      add("ledger_chronicle_open_recover_ms", (System.nanoTime() - started) / MS, "ms");
      scan(ledger);
    }
  }

  private double commit(Ledger ledger, int batch, boolean sync, int commits) throws IOException {
    long started = System.nanoTime();
    for (int i = 0; i < commits; i++) {
      for (int row = 0; row < batch; row++) {
        ledger.record(random.nextInt(rows), next());
      }
      ledger.commit(sync);
    }
    return (System.nanoTime() - started) / 1000.0 / commits;
  }

  private double scan(Ledger ledger) throws IOException {
    int[] found = {0};
    long started = System.nanoTime();
    ledger.forEach((place, row) -> found[0]++);
    double took = (System.nanoTime() - started) / MS;
    if (found[0] != rows) {
      throw new IllegalStateException(found[0] + " rows of " + rows);
    }
    return took;
  }

  private LedgerEntry next() {
    for (int i = 0; i < LedgerEntry.KEY_BYTES_MAX; i++) {
      entry.key[i] = (byte) random.nextInt();
    }
    entry.keyBytes = LedgerEntry.KEY_BYTES_MAX;
    entry.checksum = random.nextInt();
    entry.parent = random.nextLong();
    entry.length = 2 << 20;
    entry.generation++;
    return entry;
  }

  private void add(String name, double value, String unit) {
    report.add(Row.plain(name, value, unit));
  }

  private static void delete(Path folder) throws IOException {
    if (Files.exists(folder)) {
      try (Stream<Path> files = Files.walk(folder)) {
        for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
          Files.delete(file);
        }
      }
    }
  }
}
