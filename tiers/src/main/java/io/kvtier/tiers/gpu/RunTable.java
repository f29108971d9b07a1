package io.kvtier.tiers.gpu;

import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;

/**
 * What the copy kernel reads: one entry a run, in host memory that the device sees. The kernel's
 * source, {@code copy_runs.cu}, declares the same.
 *
 * <pre>
 *   0          8          16         24
 *   | source   | target   | length   |
 * </pre>
 */
public final class RunTable {
  /** A warp copies so many bytes of a run before it takes the next piece; as in the kernel. */
  public static final int PIECE_BYTES = 4096;

  /** Threads of a block, and so its warps, each with a piece at a time. */
  static final int BLOCK_THREADS = 512;

  static final int BLOCK_PIECES = BLOCK_THREADS / 32;

  private static final StructLayout ENTRY =
      MemoryLayout.structLayout(
          ValueLayout.JAVA_LONG.withName("source"),
          ValueLayout.JAVA_LONG.withName("target"),
          ValueLayout.JAVA_LONG.withName("length"));

  /** The bytes of an entry. */
  public static final int ENTRY_BYTES = (int) ENTRY.byteSize();

  private static final long SOURCE = 0;
  private static final long TARGET = Long.BYTES;
  private static final long LENGTH = 2L * Long.BYTES;

  private RunTable() {}

  static void write(MemorySegment table, int entry, long source, long target, long length) {
    long at = (long) entry * ENTRY_BYTES;
    table.set(ValueLayout.JAVA_LONG, at + SOURCE, source);
    table.set(ValueLayout.JAVA_LONG, at + TARGET, target);
    table.set(ValueLayout.JAVA_LONG, at + LENGTH, length);
  }

  /** An entry's source. */
  public static long source(MemorySegment table, int entry) {
    return table.get(ValueLayout.JAVA_LONG, (long) entry * ENTRY_BYTES + SOURCE);
  }

  /** An entry's target. */
  public static long target(MemorySegment table, int entry) {
    return table.get(ValueLayout.JAVA_LONG, (long) entry * ENTRY_BYTES + TARGET);
  }

  /** An entry's length. */
  public static long length(MemorySegment table, int entry) {
    return table.get(ValueLayout.JAVA_LONG, (long) entry * ENTRY_BYTES + LENGTH);
  }

  /** Into how many pieces a run is cut. */
  static int pieces(int bytes) {
    return (bytes + PIECE_BYTES - 1) / PIECE_BYTES;
  }
}
