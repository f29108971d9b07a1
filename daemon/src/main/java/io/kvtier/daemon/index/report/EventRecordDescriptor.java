package io.kvtier.daemon.index.report;

import io.kvtier.daemon.index.core.BlockEvents;

/**
 * The layout of a record in the {@link EventRing}: what happened to a block in a tier. In the
 * memory of this process, and of its byte order.
 *
 * <pre>
 *    0  u32 record bytes   4  u8 kind   5  u8 tiers, a bit each   6  u8 key bytes   7  u8 zero
 *    8  u64 sequence: one that is left out was lost
 *   16  u32 namespace id  20  u16 group  22  u16 annotation bytes
 *   24  key, 32 bytes, zero-padded
 *   56  annotation, zero-padded to a multiple of 8
 * </pre>
 */
public final class EventRecordDescriptor {
  public static final int RECORD_BYTES_OFFSET = 0;
  public static final int KIND_OFFSET = 4;
  public static final int TIERS_OFFSET = 5;
  public static final int KEY_BYTES_OFFSET = 6;
  public static final int SEQUENCE_OFFSET = 8;
  public static final int NAMESPACE_OFFSET = 16;
  public static final int GROUP_OFFSET = 20;
  public static final int ANNOTATION_BYTES_OFFSET = 22;
  public static final int KEY_OFFSET = 24;
  public static final int ANNOTATION_OFFSET = 56;

  /** A copy became resident, or got its annotation. */
  public static final int STORED = 1;

  /** A copy is no more. */
  public static final int REMOVED = 2;

  /** A walk over the whole directory begins. */
  public static final int WALK_BEGIN = 3;

  /** It found a block in these tiers. */
  public static final int PRESENT = 4;

  /** It is over: what it did not find, and was not stored since it began, is not there. */
  public static final int WALK_END = 5;

  /** The bits of tiers. */
  public static final int HOST = BlockEvents.HOST;

  public static final int SSD = BlockEvents.SSD;
  public static final int OBJECT = BlockEvents.OBJECT;

  private EventRecordDescriptor() {}
}
