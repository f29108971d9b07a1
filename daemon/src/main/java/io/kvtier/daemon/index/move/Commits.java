package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.ClassQueues;
import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierParts;
import io.kvtier.daemon.index.transfer.Mover;
import io.kvtier.protocol.Counter;
import io.kvtier.tiers.transfer.Checksums;
import java.lang.foreign.MemorySegment;
import java.util.function.IntFunction;

/**
 * How a block that was written to its first slot gets its checksum, and becomes resident then.
 * Confined to the index.
 */
final class Commits {
  private final Directory directory;
  private final Copies copies;
  private final Arrivals arrivals;
  private final ResidentTier first;
  private final Mover mover;
  private final IntFunction<MemorySegment> slabs;
  private final Counters counters;
  private final int inlineChecksumBytes;
  private final ClassQueues backlog;
  private final ClassQueues.Server serve = this::serve;

  /**
   * Without a block to commit yet.
   *
   * @param top the parts of the first tier
   */
  Commits(MoveParts parts, TierParts.First top, Arrivals arrivals) {
    directory = parts.core().directory();
    counters = parts.core().counters();
    copies = parts.copies();
    first = parts.stack().first();
    mover = parts.mover();
    slabs = top.slabs();
    inlineChecksumBytes = top.checksums().inlineBytes();
    this.arrivals = arrivals;
    backlog = new ClassQueues(first.slots().classesMax(), 1, parts.core().limits().holdsMax());
  }

  /** The client has written the block: its checksum is made, then the block becomes resident. */
  void commit(int block) {
    first.setState(block, CopyState.STAGING);
    directory.addUses(block, 1);
    int length = copies.storedBytes(block);
    // A commit gives its hold back: only the slots bound how many blocks wait for their checksums.
    // The checksum of a block that finds no place to wait is made at once; clients wait meanwhile.
    if (length <= inlineChecksumBytes
        || (!mover.checksum(block) && !backlog.offer(first.sizeClass(block), 0, block))) {
      int slot = first.slot(block);
      MemorySegment slab = slabs.apply(first.slots().regionOf(slot));
      finish(block, Checksums.of(slab.asSlice(first.slots().offsetOf(slot), length)));
    }
  }

  /**
   * The client has made the checksum while it wrote the block. Every reader, and every transfer,
   * verifies the block with that checksum.
   */
  void commitChecksummed(int block, int checksum) {
    first.setState(block, CopyState.STAGING);
    becomeResident(block, checksum);
  }

  /** Another node has sent the block, with a checksum that its bytes match. */
  void receive(int block, int checksum) {
    first.setState(block, CopyState.STAGING);
    directory.setChecksum(block, checksum);
    arrivals.becomeResident(block);
  }

  /** The checksum of a block that was committed is made. */
  void finish(int block, int checksum) {
    directory.set(Directory.FLAG_ARRIVED, block, false);
    directory.addUses(block, -1);
    if (first.state(block) == CopyState.LEAVING) {
      copies.settle(block);
      return;
    }
    becomeResident(block, checksum);
  }

  private void becomeResident(int block, int checksum) {
    directory.setChecksum(block, checksum);
    counters.add(Counter.PUT_BLOCKS, 1);
    arrivals.becomeResident(block);
  }

  /** Hands waiting blocks to the pipeline of checksums. */
  void advance() {
    if (backlog.size() > 0) {
      backlog.serve(first.slots().classes(), serve);
    }
  }

  private boolean serve(long item) {
    int block = (int) item;
    if (first.state(block) == CopyState.LEAVING) {
      copies.endUse(block);
      return true;
    }
    return mover.checksum(block);
  }

  /** How many blocks wait for the pipeline. */
  int waiting() {
    return backlog.size();
  }
}
