package io.kvtier.protocol;

/**
 * The layout of the daemon's own memory: who it is, whether it sleeps, and its counters. Clients
 * map it read-only.
 *
 * <p>Little-endian. Generated from protocol/schema.toml.
 *
 * <pre>
 *     0 u64      magic          "KVTIERDR"
 *     8 u32      version        of the layout
 *    12 u32      ready          published last, release
 *    16 u64      generation     a new random number at every start
 *    24 u64      process id
 *    32 u64      start time     ms since the epoch
 *    40 u64      slab bytes
 *    48 u32      slab count
 *    52 u32      counter count
 *   128 u32      index waiting  1 while the index sleeps or is about to: ring the session's doorbell
 *   132 u32      index cpu      the number of the processor on which the index last had no work, plus one; 0: unknown. A client on the same one sleeps, so that the index can run
 *   256 u64      heartbeat      CLOCK_MONOTONIC ns of the index's last look round
 *   512 u64[448] counters       in the order of {@link Counter}
 *  4096 end
 * </pre>
 */
public final class DaemonRegionDescriptor {
  public static final long MAGIC = 0x5244_5245_4954_564BL; // "KVTIERDR" in memory order

  public static final int MAGIC_OFFSET = 0;
  public static final int VERSION_OFFSET = 8;
  public static final int READY_OFFSET = 12;
  public static final int GENERATION_OFFSET = 16;
  public static final int PROCESS_ID_OFFSET = 24;
  public static final int START_TIME_OFFSET = 32;
  public static final int SLAB_BYTES_OFFSET = 40;
  public static final int SLAB_COUNT_OFFSET = 48;
  public static final int COUNTER_COUNT_OFFSET = 52;
  public static final int INDEX_WAITING_OFFSET = 128;
  public static final int INDEX_CPU_OFFSET = 132;
  public static final int HEARTBEAT_OFFSET = 256;
  public static final int COUNTERS_OFFSET = 512;
  public static final int REGION_BYTES = 4096;

  private DaemonRegionDescriptor() {}
}
