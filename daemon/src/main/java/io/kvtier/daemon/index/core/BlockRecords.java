package io.kvtier.daemon.index.core;

import io.kvtier.policies.BitMixer;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.protocol.Protocol;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/**
 * The records of all blocks: key, place in the sequence, checksum, flags and counts of use. A
 * record has 64 bytes, one cache line, in a fixed amount of memory outside the heap. The number of
 * a record is the id of its block everywhere else. Confined to the index.
 *
 * <pre>
 *    0  key, 32 bytes, zero-padded
 *   32  u16 namespace id  34  u16 group   36  u8 key bytes   37  u8 source it is fetched from
 *   38  u16 hits since the block came into the first tier
 *   40  i32 depth         44  i32 record of the block before it, plus one; 0: none is known
 *   48  u32 CRC32C        52  u16 uses    54  u16 flags
 *   56  i32 holds         60  i32 next in chain, or next free record
 * </pre>
 *
 * <p>A second table has the fingerprint of the block before each block in its sequence (8 bytes, 0
 * when unknown). The number of that block's record is only a hint, because records are reused.
 */
public abstract class BlockRecords {
  /** No block. */
  public static final int NONE = -1;

  /** It is not known whether the block before a block was ever here. */
  public static final int UNSEEN = -2;

  static final int FLAG_LINKED = 1;
  static final int FLAG_USED = 2;

  /** The block is known to be an object, too. */
  public static final int FLAG_OBJECT = 4;

  /** The block is on its way to an object. */
  public static final int FLAG_UPLOADING = 8;

  /** The block is on its way from a source, or looked for there. */
  public static final int FLAG_FETCHING = 16;

  /** The block was deleted during its upload: the object must be deleted after the upload. */
  public static final int FLAG_DELETED = 32;

  /** The object store refused the block a short while ago, and is not asked again yet. */
  public static final int FLAG_REFUSED = 64;

  /** All bytes of the first tier's copy are in its slot; the checksum is not made yet. */
  public static final int FLAG_ARRIVED = 128;

  /** The block's last stored copy was found damaged, and its object is read instead. */
  public static final int FLAG_DAMAGED = 256;

  /** The checksum of the first tier's copy is being made again, or will be. */
  public static final int FLAG_AUDITED = 512;

  /** A client retains the block: see {@link RetentionTable}. */
  public static final int FLAG_RETAINED = 1024;

  /** Two bits of the flags: the importance of the block, changed so that 0 is normal. */
  private static final int IMPORTANCE_SHIFT = 11;

  private static final int IMPORTANCE_MASK = 3 << IMPORTANCE_SHIFT;

  /** The copies of the block are in the encoded form of its namespace. */
  public static final int FLAG_ENCODED = 8192;

  /** Another node has pushed the first tier's copy, and nobody has used it here. */
  public static final int FLAG_PUSHED = 16384;

  /** The bytes of one record. */
  public static final int RECORD_BYTES = 64;

  static final int NAMESPACE = 32;
  static final int GROUP = 34;
  static final int KEY_BYTES = 36;
  static final int SOURCE = 37;
  static final int HITS = 38;
  static final int DEPTH = 40;
  static final int PARENT_RECORD = 44;
  static final int CHECKSUM = 48;
  static final int USES = 52;
  static final int FLAGS = 54;
  static final int HOLDS = 56;
  static final int NEXT = 60;

  static final int PARENT_BYTES = 8;
  private static final int HITS_MAX = 0xffff;

  static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG;
  static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;
  static final ValueLayout.OfShort SHORT = ValueLayout.JAVA_SHORT;
  static final ValueLayout.OfByte BYTE = ValueLayout.JAVA_BYTE;

  final MemorySegment records;
  final CopyTable copies;
  private final MemorySegment parents;
  private long[] fingerprints = {};

  /** Records of which none is used. */
  BlockRecords(MemorySegment records, MemorySegment parents, CopyTable copies) {
    this.records = records;
    this.parents = parents;
    this.copies = copies;
  }

  /** The copies of the blocks. */
  public CopyTable copies() {
    return copies;
  }

  /**
   * Sets the number that stands for a namespace in the fingerprints of its blocks; it is equal in
   * all starts of the daemon.
   */
  final void setFingerprint(int namespaceId, long fingerprint) {
    if (namespaceId >= fingerprints.length) {
      fingerprints = Arrays.copyOf(fingerprints, Math.max(64, 2 * namespaceId));
    }
    fingerprints[namespaceId] = fingerprint;
  }

  static long at(int block) {
    return (long) block * RECORD_BYTES;
  }

  /** Copies a block's key, zero-padded to 32 bytes. */
  public void copyKey(int block, byte[] target) {
    MemorySegment.copy(records, BYTE, at(block), target, 0, Protocol.KEY_BYTES_MAX);
  }

  /** Well-mixed bits of a block's key, for policies; never 0. */
  public long fingerprint(int block) {
    long at = at(block);
    return fingerprint(
        namespaceId(block), group(block), records.get(LONG, at), records.get(LONG, at + 8));
  }

  final long fingerprint(int namespaceId, int group, long first, long second) {
    long namespace = namespaceId < fingerprints.length ? fingerprints[namespaceId] : namespaceId;
    long mixed = BitMixer.mix(first ^ BitMixer.mix(second ^ ((long) group << 32 ^ namespace)));
    return mixed == 0 ? 1 : mixed;
  }

  /** Sets the place of a block in its sequence, behind a block that has no record. */
  public void setLineage(int block, int depth, long parent) {
    setLineage(block, depth, parent, NONE);
  }

  /** Sets the place of a block in its sequence, behind another block; {@link #NONE}: none. */
  public void setLineage(int block, int depth, long parent, int parentBlock) {
    parents.set(LONG, (long) block * PARENT_BYTES, parent);
    records.set(INT, at(block) + DEPTH, depth);
    records.set(INT, at(block) + PARENT_RECORD, parentBlock + 1);
  }

  /**
   * The block before a block in its sequence: its id, {@link #NONE} when that block has left,
   * {@link #UNSEEN} when it is not known to have been here. Another block with that record and
   * fingerprint would be mistaken for it. Therefore only the order in which blocks leave depends on
   * the answer.
   */
  public int parentBlock(int block) {
    int hint = records.get(INT, at(block) + PARENT_RECORD) - 1;
    if (hint == NONE) {
      return UNSEEN;
    }
    return isLinked(hint) && fingerprint(hint) == parent(block) ? hint : NONE;
  }

  /** How often the block was used since it came into the first tier, at most 65,535. */
  public int hits(int block) {
    return Short.toUnsignedInt(records.get(SHORT, at(block) + HITS));
  }

  public void clearHits(int block) {
    records.set(SHORT, at(block) + HITS, (short) 0);
  }

  /** Counts a use; returns the new count. */
  public int addHit(int block) {
    int hits = Math.min(hits(block) + 1, HITS_MAX);
    records.set(SHORT, at(block) + HITS, (short) hits);
    return hits;
  }

  /** The place of a block in its sequence, from 0. */
  public int depth(int block) {
    return records.get(INT, at(block) + DEPTH);
  }

  /** The fingerprint of the block before a block in its sequence, 0 when unknown. */
  public long parent(int block) {
    return parents.get(LONG, (long) block * PARENT_BYTES);
  }

  public int namespaceId(int block) {
    return Short.toUnsignedInt(records.get(SHORT, at(block) + NAMESPACE));
  }

  public int group(int block) {
    return Short.toUnsignedInt(records.get(SHORT, at(block) + GROUP));
  }

  public int keyBytes(int block) {
    return records.get(BYTE, at(block) + KEY_BYTES);
  }

  /** The source that a block is fetched from. It has no meaning while no fetch is under way. */
  public int source(int block) {
    return records.get(BYTE, at(block) + SOURCE);
  }

  public void setSource(int block, int source) {
    records.set(BYTE, at(block) + SOURCE, (byte) source);
  }

  public int checksum(int block) {
    return records.get(INT, at(block) + CHECKSUM);
  }

  public void setChecksum(int block, int checksum) {
    records.set(INT, at(block) + CHECKSUM, checksum);
  }

  /** How many transfers use the block, or wait to begin. */
  public int uses(int block) {
    return Short.toUnsignedInt(records.get(SHORT, at(block) + USES));
  }

  public void addUses(int block, int delta) {
    int uses = uses(block) + delta;
    if (uses < 0 || uses > 0xffff) {
      throw new IllegalStateException("block " + block + " would have " + uses + " uses");
    }
    records.set(SHORT, at(block) + USES, (short) uses);
    if (uses == 0 || uses == delta) {
      copies.changed(block);
    }
  }

  /** How many leases and pins clients hold on the block. */
  public int holds(int block) {
    return records.get(INT, at(block) + HOLDS);
  }

  public void addHolds(int block, int delta) {
    int holds = holds(block) + delta;
    if (holds < 0) {
      throw new IllegalStateException("block " + block + " would have " + holds + " holds");
    }
    records.set(INT, at(block) + HOLDS, holds);
    if (holds == 0 || holds == delta) {
      copies.changed(block);
    }
  }

  /** The importance of a block for policies, from 0. */
  public int importance(int block) {
    int flags = records.get(SHORT, at(block) + FLAGS);
    return ((flags & IMPORTANCE_MASK) >>> IMPORTANCE_SHIFT) ^ EvictionPolicy.NORMAL;
  }

  public void setImportance(int block, int importance) {
    int flags = records.get(SHORT, at(block) + FLAGS) & ~IMPORTANCE_MASK;
    int bits = (importance ^ EvictionPolicy.NORMAL) << IMPORTANCE_SHIFT;
    records.set(SHORT, at(block) + FLAGS, (short) (flags | bits));
  }

  /** Whether a flag is set. */
  public boolean has(int flag, int block) {
    return (records.get(SHORT, at(block) + FLAGS) & flag) != 0;
  }

  /** Sets or clears a flag. */
  public void set(int flag, int block, boolean is) {
    int flags = records.get(SHORT, at(block) + FLAGS);
    records.set(SHORT, at(block) + FLAGS, (short) (is ? flags | flag : flags & ~flag));
  }

  /** Whether the block can be found by its key. */
  public boolean isLinked(int block) {
    return (records.get(SHORT, at(block) + FLAGS) & FLAG_LINKED) != 0;
  }

  /** Whether the record is in use. */
  public boolean isUsed(int block) {
    return records.get(SHORT, at(block) + FLAGS) != 0;
  }
}
