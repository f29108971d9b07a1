package io.kvtier.client.internal.session;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * The calls of a session, pooled. A correlation id has the call's place in its lower bits, and
 * above them a number that is never given twice. Under the session's lock.
 */
final class CallTable {
  private static final int SLOT_BITS = 16;
  private static final int SLOT_MASK = (1 << SLOT_BITS) - 1;
  private static final int CALLS_MIN = 64;

  private Call[] calls = new Call[CALLS_MIN];
  private int[] freeSlots = new int[CALLS_MIN];
  private int freeCount;
  private int count;
  private long sequence = 1;

  /** A free call with a new id, or null when all are in flight. */
  @Nullable Call take() {
    Call call;
    if (freeCount > 0) {
      call = calls[freeSlots[--freeCount]];
    } else if (count > SLOT_MASK) {
      return null;
    } else {
      if (count == calls.length) {
        calls = Arrays.copyOf(calls, count * 2);
        freeSlots = Arrays.copyOf(freeSlots, count * 2);
      }
      call = new Call(count);
      calls[count++] = call;
    }
    call.id = sequence++ << SLOT_BITS | call.slot;
    return call;
  }

  /** Takes a call back. */
  void free(Call call) {
    freeSlots[freeCount++] = call.slot;
  }

  /** The call that last had this id, or null. */
  @Nullable Call of(long id) {
    int slot = (int) id & SLOT_MASK;
    Call call = slot < count ? calls[slot] : null;
    return call != null && call.id == id ? call : null;
  }

  /** How many calls there are, free ones too. */
  int count() {
    return count;
  }

  Call at(int index) {
    return calls[index];
  }
}
