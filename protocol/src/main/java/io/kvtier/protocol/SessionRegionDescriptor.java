package io.kvtier.protocol;

/**
 * The layout of a session's memory: its two rings and their counters. Both sides map it for
 * writing; the daemon never trusts what it reads here and keeps its own positions privately. Words
 * written by different sides are 128 bytes apart.
 *
 * <p>Little-endian. Generated from protocol/schema.toml.
 *
 * <pre>
 *     0 u64      magic                  "KVTIERSR"
 *     8 u32      version                of the layout
 *    12 u32      ready                  published last, release
 *    16 u64      session id
 *    24 u64      region bytes
 *    32 u64      request ring bytes
 *    40 u64      completion ring bytes
 *   128 u64      request tail           client writes, release
 *   256 u64      request head           daemon writes, release
 *   384 u64      completion tail        daemon writes, release
 *   512 u64      completion head        client writes, release
 *   640 u32      client waiting         futex word: the client sets 1 before it sleeps, the daemon clears it and wakes
 *   644 u32      client cpu             the client sets it before it sleeps: the number of its processor, plus one; 0: unknown. A daemon that wakes it there sleeps, so that it can run
 *   768 u32      end reason             the daemon writes once: the status that ended the session, plus one
 *  1024 u32[256] progress               daemon writes, release. The word that a request names counts the layers of its copy, modulo 2^32, from the value at the request. Greater by n: the n leading layers are done. Greater by all requested layers: they are done, or the answer is about to come. A word never becomes less. After the client has written to a word, the daemon no longer changes it
 *  4096          request ring, then completion ring  each is mapped twice in a row. Where a page has more than 4096 bytes, they begin after one page
 * </pre>
 *
 * Positions count bytes from the beginning of the session and never wrap; a record's place in a
 * ring is its position modulo the ring's size, a power of two.
 */
public final class SessionRegionDescriptor {
  public static final long MAGIC = 0x5253_5245_4954_564BL; // "KVTIERSR" in memory order

  /** The number of words that count layers. */
  public static final int PROGRESS_WORDS = 256;

  /** The alignment of every record, and the unit of a record's length. */
  public static final int RECORD_ALIGNMENT = 8;

  public static final int MAGIC_OFFSET = 0;
  public static final int VERSION_OFFSET = 8;
  public static final int READY_OFFSET = 12;
  public static final int SESSION_ID_OFFSET = 16;
  public static final int REGION_BYTES_OFFSET = 24;
  public static final int REQUEST_RING_BYTES_OFFSET = 32;
  public static final int COMPLETION_RING_BYTES_OFFSET = 40;
  public static final int REQUEST_TAIL_OFFSET = 128;
  public static final int REQUEST_HEAD_OFFSET = 256;
  public static final int COMPLETION_TAIL_OFFSET = 384;
  public static final int COMPLETION_HEAD_OFFSET = 512;
  public static final int CLIENT_WAITING_OFFSET = 640;
  public static final int CLIENT_CPU_OFFSET = 644;
  public static final int END_REASON_OFFSET = 768;
  public static final int PROGRESS_OFFSET = 1024;
  public static final int HEADER_BYTES = 4096;

  private SessionRegionDescriptor() {}
}
