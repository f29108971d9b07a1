package io.kvtier.bench;

import io.kvtier.client.KvtierClient;

/**
 * Gets and puts with a copy, against bare copies of the same blocks. Each language has a daemon of
 * its own: where two sessions may write the same slab, readers must verify checksums, which is
 * another benchmark.
 */
final class CopyScenario {
  /** A block size, and how many blocks go into one call. */
  record Size(String name, int bytes, int batch) {}

  private static final Size[] SIZES = {
    new Size("4KiB", 4 << 10, 64),
    new Size("64KiB", 64 << 10, 32),
    new Size("256KiB", 256 << 10, 16),
    new Size("1MiB", 1 << 20, 8),
    new Size("4MiB", 4 << 20, 4)
  };
  static final int WORKING_SET_BYTES = 256 << 20;
  private static final long HOST_BYTES = 1L << 30;

  private final Setup setup;

  CopyScenario(Setup setup) {
    this.setup = setup;
  }

  void run(Report report) throws Exception {
    for (Size size : SIZES) {
      run(report, size);
    }
  }

  private void run(Report report, Size size) throws Exception {
    int blocks = WORKING_SET_BYTES / size.bytes();
    Rounds rounds;
    try (DaemonProcess javaDaemon = new DaemonProcess(setup.root(), HOST_BYTES);
        DaemonProcess pythonDaemon = new DaemonProcess(setup.root(), HOST_BYTES);
        Memcpy memcpy = new Memcpy(size.bytes(), blocks, size.batch());
        KvtierClient client = javaDaemon.connect();
        JavaCopies java = new JavaCopies(client, size.bytes(), blocks, size.batch());
        Worker python = setup.startPython()) {
      var _ = python.ask("open " + pythonDaemon.socket());
      var _ = python.ask("fill " + size.bytes() + " " + blocks + " " + size.batch());
      long sliceNs = setup.sliceNs();
      long sliceMs = sliceNs / 1_000_000;
      rounds =
          Rounds.measure(
              setup.warmUps(),
              setup.rounds(),
              into -> {
                into.add("memcpy_get", memcpy.getGbps(sliceNs));
                into.add("java_get", java.get(sliceNs).gbps());
                into.add("python_get", python.ask("get " + sliceMs, "gbps"));
                into.add("memcpy_get", memcpy.getGbps(sliceNs));
                into.add("memcpy_put", memcpy.putGbps(sliceNs));
                into.add("java_put", java.put(sliceNs).gbps());
                into.add("python_put", python.ask("put " + sliceMs, "gbps"));
                into.add("memcpy_put", memcpy.putGbps(sliceNs));
              });
    }
    for (String way : new String[] {"get", "put"}) {
      for (String language : new String[] {"java", "python"}) {
        report.add(
            new Row(
                language + "_" + way + "_copy_" + size.name() + "_gbps",
                rounds.median(language + "_" + way),
                "GB/s",
                "memcpy of the same blocks, " + size.batch() + " a call",
                rounds.median("memcpy_" + way)));
      }
    }
  }
}
