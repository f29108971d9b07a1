package io.kvtier.bench;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * What an object's size is worth: the same bytes as objects of a block each and of several blocks
 * each, written, read whole, and read block by block through ranges. With the bare client.
 */
final class ObjectLayoutBench {
  private static final int CONCURRENCY = 8;
  private static final long WORKING_SET_BYTES = 64 << 20;
  private static final int[] OBJECT_KIB = {128, 1024, 2048, 16384};
  private static final int[] BLOCK_KIB = {128, 2048};

  private final S3ProxyProcess server;
  private final Report report;
  private final boolean quick;

  ObjectLayoutBench(S3ProxyProcess server, Report report, boolean quick) {
    this.server = server;
    this.report = report;
    this.quick = quick;
  }

  void run() throws Exception {
    try (BareS3 bare = new BareS3(server, CONCURRENCY);
        Arena arena = Arena.ofShared()) {
      MemorySegment memory = arena.allocate(WORKING_SET_BYTES, 4096);
      Rounds measured =
          Rounds.measure(quick ? 1 : 2, quick ? 3 : 7, into -> pass(into, bare, memory));
      for (int objectKib : OBJECT_KIB) {
        report.add(row(measured, "put", objectKib));
        report.add(row(measured, "get", objectKib));
        for (int blockKib : BLOCK_KIB) {
          if (blockKib < objectKib) {
            report.add(row(measured, "get_" + blockKib + "KiB_of", objectKib));
          }
        }
      }
    }
  }

  private static Row row(Rounds measured, String what, int objectKib) {
    String name = "object_layout_" + what + "_" + objectKib + "KiB_gbps";
    return Row.plain(name, measured.median(name), "GB/s");
  }

  private static void pass(Rounds into, BareS3 bare, MemorySegment memory) throws Exception {
    double bytes = WORKING_SET_BYTES;
    for (int objectKib : OBJECT_KIB) {
      long objectBytes = (long) objectKib << 10;
      int count = (int) (WORKING_SET_BYTES / objectBytes);
      String end = "_" + objectKib + "KiB_gbps";
      long tookNs =
          bare.run(
              count,
              i ->
                  bare.put(
                      "layout/" + i, memory.asSlice(i * objectBytes, objectBytes).asByteBuffer()));
      into.add("object_layout_put" + end, bytes / tookNs);
      tookNs = get(bare, memory, objectBytes, objectBytes);
      into.add("object_layout_get" + end, bytes / tookNs);
      for (int blockKib : BLOCK_KIB) {
        if (blockKib < objectKib) {
          tookNs = get(bare, memory, objectBytes, (long) blockKib << 10);
          into.add("object_layout_get_" + blockKib + "KiB_of" + end, bytes / tookNs);
        }
      }
      var _ = bare.run(count, i -> bare.delete("layout/" + i));
    }
  }

  private static long get(BareS3 bare, MemorySegment memory, long objectBytes, long partBytes)
      throws InterruptedException {
    return bare.run(
        (int) (WORKING_SET_BYTES / partBytes),
        i -> {
          long at = i * partBytes;
          return bare.get(
              "layout/" + at / objectBytes,
              at % objectBytes,
              memory.asSlice(at, partBytes).asByteBuffer());
        });
  }
}
