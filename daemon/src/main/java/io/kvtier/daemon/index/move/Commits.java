package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.ClassQueues;
import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierParts;
import io.kvtier.daemon.index.transfer.Mover;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.slots.SlotAllocator;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.EncodedGranules;
import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.Map;
import java.util.function.IntFunction;
import java.util.function.IntPredicate;
import org.jspecify.annotations.Nullable;

/**
 * How a block that was written to its first slot gets its checksum, and becomes resident then.
 * Confined to the index.
 */
final class Commits {
  /** The parts of a raw block that are in another slot, which is kept for them. */
  private record Rest(int slot, EncodedGranules granules) {}

  private final Directory directory;
  private final Copies copies;
  private final Arrivals arrivals;
  private final ResidentTier first;
  private final Mover mover;
  private final IntFunction<MemorySegment> slabs;
  private final Counters counters;
  private final int inlineChecksumBytes;
  private final ClassQueues backlog;

  /** The parts of blocks that are decoded before their checksums are made. */
  private final Map<Integer, Rest> rests = new HashMap<>();

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
    EncodedGranules rest = restOf(block);
    if (length <= inlineChecksumBytes
        || (!mover.checksum(block, rest) && !backlog.offer(first.sizeClass(block), 0, block))) {
      MemorySegment bytes = bytes(first.slot(block), length);
      boolean isSound = rest == null || rest.decode(bytes);
      finish(block, Checksums.of(bytes), isSound ? Status.OK : Status.CORRUPT);
    }
  }

  /**
   * All bytes of a block have come, and some of them encoded: these are decoded, its checksum is
   * made, then the block becomes resident.
   *
   * @param slot where the encoded granules are; kept for the block until they are decoded
   * @param granules whether a granule is encoded; asked by the thread that decodes
   */
  void decode(int block, int slot, BlockEncoding encoding, IntPredicate granules) {
    MemorySegment encoded = bytes(slot, encoding.encodedBytes());
    rests.put(block, new Rest(slot, new EncodedGranules(encoding, encoded, granules)));
    commit(block);
  }

  /** How many blocks have parts that are not decoded yet; for tests. */
  int decoding() {
    return rests.size();
  }

  private MemorySegment bytes(int slot, long length) {
    SlotAllocator slots = first.slots();
    return slabs.apply(slots.regionOf(slot)).asSlice(slots.offsetOf(slot), length);
  }

  private @Nullable EncodedGranules restOf(int block) {
    Rest rest = rests.isEmpty() ? null : rests.get(block);
    return rest == null ? null : rest.granules;
  }

  private void endRest(int block) {
    Rest rest = rests.isEmpty() ? null : rests.remove(block);
    if (rest != null) {
      first.freeKept(rest.slot);
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

  /**
   * The checksum of a block that was committed is made.
   *
   * @param status OK, or CORRUPT when parts of the block can't be decoded
   */
  void finish(int block, int checksum, Status status) {
    directory.set(Directory.FLAG_ARRIVED, block, false);
    directory.addUses(block, -1);
    endRest(block);
    if (first.state(block) == CopyState.LEAVING) {
      copies.settle(block);
      return;
    }
    if (status != Status.OK) {
      copies.dropDamaged(block);
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
      endRest(block);
      copies.endUse(block);
      return true;
    }
    return mover.checksum(block, restOf(block));
  }

  /** How many blocks wait for the pipeline. */
  int waiting() {
    return backlog.size();
  }
}
