package io.kvtier.daemon.index.report;

import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.protocol.Protocol;
import io.kvtier.tiers.ledger.LedgerEntry;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Map;
import java.util.function.IntUnaryOperator;

/**
 * Writes what becomes of copies into an {@link EventRing}, without waiting and without allocating.
 * When the reader asks for everything, it also walks over the directory, some blocks a round.
 * Confined to the index.
 */
public final class EventTap implements BlockEvents {
  private static final int BLOCKS_PER_ROUND = 256;
  private static final ValueLayout.OfByte BYTE = ValueLayout.JAVA_BYTE;

  private final EventRing ring;
  private final Directory directory;
  private final byte[] key = new byte[Protocol.KEY_BYTES_MAX];
  private final byte[] annotation = new byte[LedgerEntry.ANNOTATION_BYTES_MAX];
  private int walksDone;
  private boolean isWalking;
  private boolean hasBegun;
  private int walksBegun;
  private int cursor;
  private int end;

  public EventTap(EventRing ring, Directory directory) {
    this.ring = ring;
    this.directory = directory;
  }

  @Override
  public void stored(int tiers, int block) {
    tell(EventRecordDescriptor.STORED, tiers, block);
  }

  @Override
  public void removed(int tiers, int block) {
    directory.copyKey(block, key);
    tellKey(
        EventRecordDescriptor.REMOVED,
        tiers,
        directory.namespaceId(block),
        directory.group(block),
        directory.keyBytes(block),
        0);
  }

  @Override
  public void removedSought(int tiers, int namespaceId, int group, int keyBytes) {
    directory.copySought(key);
    tellKey(EventRecordDescriptor.REMOVED, tiers, namespaceId, group, keyBytes, 0);
  }

  @Override
  public void removedNamed(int tiers, int namespaceId, Transfer named) {
    System.arraycopy(named.key, 0, key, 0, key.length);
    tellKey(EventRecordDescriptor.REMOVED, tiers, namespaceId, named.group, named.keyBytes, 0);
  }

  @Override
  public void name(int namespaceId, String name, Map<String, String> properties) {
    ring.name(namespaceId, new EventRing.Name(name, properties));
  }

  /** What the reader has to say for the statistics. */
  Map<String, Object> report() {
    return ring.report();
  }

  private void tell(int kind, int tiers, int block) {
    directory.copyKey(block, key);
    int annotationBytes = directory.annotations().bytes(block);
    directory.annotations().copy(block, annotation);
    tellKey(
        kind,
        tiers,
        directory.namespaceId(block),
        directory.group(block),
        directory.keyBytes(block),
        annotationBytes);
  }

  private boolean tellKey(
      int kind, int tiers, int namespaceId, int group, int keyBytes, int annotationBytes) {
    int bytes = EventRecordDescriptor.ANNOTATION_OFFSET + ((annotationBytes + 7) & ~7);
    long at = ring.claim(bytes, kind == EventRecordDescriptor.REMOVED);
    if (at < 0) {
      return false;
    }
    MemorySegment memory = ring.memory();
    memory.set(BYTE, at + EventRecordDescriptor.KIND_OFFSET, (byte) kind);
    memory.set(BYTE, at + EventRecordDescriptor.TIERS_OFFSET, (byte) tiers);
    memory.set(BYTE, at + EventRecordDescriptor.KEY_BYTES_OFFSET, (byte) keyBytes);
    memory.set(ValueLayout.JAVA_INT, at + EventRecordDescriptor.NAMESPACE_OFFSET, namespaceId);
    memory.set(ValueLayout.JAVA_SHORT, at + EventRecordDescriptor.GROUP_OFFSET, (short) group);
    memory.set(
        ValueLayout.JAVA_SHORT,
        at + EventRecordDescriptor.ANNOTATION_BYTES_OFFSET,
        (short) annotationBytes);
    MemorySegment.copy(key, 0, memory, BYTE, at + EventRecordDescriptor.KEY_OFFSET, key.length);
    MemorySegment.copy(
        annotation, 0, memory, BYTE, at + EventRecordDescriptor.ANNOTATION_OFFSET, annotationBytes);
    ring.publish();
    return true;
  }

  // ---- walks

  /** Whether {@link #walk} would do something now. */
  public boolean isToWalk() {
    return (isWalking || walksDone != ring.walksWanted()) && ring.hasRoomForWalk();
  }

  /**
   * Goes on with a walk, if one is wanted.
   *
   * @param tiersOf in which tiers a block is, a bit each
   */
  public void walk(IntUnaryOperator tiersOf) {
    if (!isToWalk()) {
      return;
    }
    if (!isWalking) {
      isWalking = true;
      hasBegun = false;
      walksBegun = ring.walksWanted();
      cursor = 0;
      end = directory.highWater();
    }
    hasBegun = hasBegun || tellKey(EventRecordDescriptor.WALK_BEGIN, 0, 0, 0, 0, 0);
    int looks = 0;
    while (hasBegun && cursor < end && looks++ < BLOCKS_PER_ROUND && ring.hasRoomForWalk()) {
      int block = cursor++;
      int tiers =
          directory.isUsed(block) && directory.isLinked(block) ? tiersOf.applyAsInt(block) : 0;
      if (tiers != 0) {
        tell(EventRecordDescriptor.PRESENT, tiers, block);
      }
    }
    if (cursor >= end && tellKey(EventRecordDescriptor.WALK_END, 0, 0, 0, 0, 0)) {
      isWalking = false;
      walksDone = walksBegun;
    }
  }
}
