package io.kvtier.tiers.object;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.Buffers;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/** A transfer on its way through an {@link ObjectPipeline}. Pooled; the pipeline's thread's own. */
final class ObjectOperation {
  /** Where it stands. */
  enum State {
    FREE,
    /** For its turn. */
    WAITING,
    /** A worker checks and seals its bytes, and begins to put them. */
    SEALING,
    /** The store has it. */
    CALLING,
    /** Until the next try. */
    RESTING,
    /** A worker checks what was read. */
    OPENING
  }

  private @Nullable Transfer transfer;
  State state = State.FREE;

  /** Tells events of this use from those of a former one. */
  long epoch;

  String name = "";
  boolean sealed;
  int tries;
  long beganNs;
  long deadlineNs;

  /** RESTING: when it is over. */
  long wakesNs;

  /** CALLING: since when. */
  long calledNs;

  /** Tries for a breaker that is half open. */
  boolean trying;

  ObjectBlock block;
  @Nullable StoreCall call;

  ObjectBlock hedgeBlock;

  /** Where the second call reads to. */
  MemorySegment hedgeSlot = MemorySegment.NULL;

  @Nullable StoreCall hedgeCall;

  /** Where a block is read again that did not verify in its slab; empty where it is not. */
  MemorySegment aside = MemorySegment.NULL;

  ObjectOperation(Arena arena, @Nullable ObjectCipher cipher, Buffers buffers) {
    block = new ObjectBlock(arena, cipher, buffers);
    hedgeBlock = new ObjectBlock(arena, cipher, buffers);
  }

  void begin(Transfer next, String nextName, long nowNs, long timeoutNs) {
    epoch++;
    transfer = next;
    name = nextName;
    state = State.WAITING;
    sealed = false;
    tries = 0;
    beganNs = nowNs;
    deadlineNs = nowNs + timeoutNs;
    trying = false;
  }

  Transfer transfer() {
    Transfer present = transfer;
    if (present == null) {
      throw new IllegalStateException("a free operation has no transfer");
    }
    return present;
  }

  boolean isLoad() {
    return transfer().kind == Transfer.Kind.LOAD;
  }

  /** The second call was first: what it read is what the first one was to read. */
  void takeHedge() {
    transfer().bytes().copyFrom(hedgeSlot.asSlice(0, transfer().length));
    ObjectBlock read = hedgeBlock;
    read.moved(transfer().bytes());
    hedgeBlock = block;
    block = read;
  }

  boolean isAside() {
    return aside.byteSize() > 0;
  }

  /** Opens what was read; what was read aside is copied to its slab when it is sound. */
  Status open(long received) {
    Transfer of = transfer();
    if (!isAside()) {
      return block.open(of, received);
    }
    MemorySegment slab = of.slab;
    long slabOffset = of.slabOffset;
    of.slab = aside;
    of.slabOffset = 0;
    Status status = block.open(of, received);
    of.slab = slab;
    of.slabOffset = slabOffset;
    if (status == Status.OK) {
      MemorySegment.copy(aside, 0, slab, slabOffset, of.length);
    }
    return status;
  }

  void free() {
    aside = MemorySegment.NULL;
    epoch++;
    transfer = null;
    state = State.FREE;
    call = null;
    hedgeCall = null;
  }
}
