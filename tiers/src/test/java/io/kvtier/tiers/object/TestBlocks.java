package io.kvtier.tiers.object;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.transfer.Buffers;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;

/** Blocks as objects, whose bytes follow from their numbers. For one thread. */
public final class TestBlocks {
  private final ObjectTransfers keys;
  private final ObjectTransfers transfers;
  private final int blockBytes;
  private final ObjectBlock block;
  private final String codec;

  public TestBlocks(Arena arena, int blockBytes) {
    this(arena, blockBytes, "none");
  }

  public TestBlocks(Arena arena, int blockBytes, String codec) {
    this.blockBytes = blockBytes;
    keys = new ObjectTransfers(arena, 1);
    transfers = new ObjectTransfers(arena, blockBytes);
    block = new ObjectBlock(arena, null, new Buffers());
    this.codec = codec;
  }

  /** The name of a block's object. */
  public String name(int number) {
    Transfer transfer = keys.load(number);
    return ObjectNames.ofBlock(
        transfer.namespaceHigh,
        transfer.namespaceLow,
        transfer.key,
        transfer.keyBytes,
        transfer.group);
  }

  public ObjectKey key(int number) {
    return ObjectKey.of(keys.load(number));
  }

  /** The object; until the next one is made. */
  public List<MemorySegment> object(int number) {
    if (block.seal(transfers.store(number), BlockCodecs.create(codec)) != Status.OK) {
      throw new IllegalStateException("block " + number + " changed while it was sealed");
    }
    return block.parts();
  }

  /** Reads a block, and says whether it is there; what is there must be right. */
  public boolean read(ObjectStore store, int number, long timeoutNs) {
    try (Arena own = Arena.ofShared()) {
      ObjectTransfers place = new ObjectTransfers(own, blockBytes);
      ObjectBlock opened = new ObjectBlock(own, null, new Buffers());
      Transfer transfer = place.load(number);
      opened.expect(transfer);
      StoreResult result = store.get(name(number), 0, opened.parts(), timeoutNs).result().join();
      if (result instanceof StoreResult.Absent) {
        return false;
      }
      if (!(result instanceof StoreResult.Done(long received))) {
        throw new AssertionError("block " + number + ": " + result);
      }
      Status status = opened.open(transfer, received);
      if (status != Status.OK || !place.holds(transfer, number)) {
        throw new AssertionError("block " + number + " has wrong bytes: " + status);
      }
      return true;
    }
  }
}
