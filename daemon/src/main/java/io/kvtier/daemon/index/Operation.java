package io.kvtier.daemon.index;

import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * A request whose blocks may have to be waited for: what is known of them, and how many are still
 * open. Pooled; its arrays grow to the largest batch seen and stay.
 */
final class Operation {
  final int poolIndex;
  private @Nullable DeviceJob job;

  /** The session, when it has ended and copies of this operation are still under way. */
  @Nullable Session departed;

  /** Why it was not carried out, in words; null: it was, or the outcome says it all. */
  @Nullable String refusal;

  boolean active;
  Verb verb = Verb.PING;
  long sessionId;
  int sessionIndex;
  long correlationId;
  long deadlineNs;

  /** When the round of the index began that took the request. */
  long beganNs;

  /** Whom it is for. */
  final RequestOrigin origin = new RequestOrigin();

  int namespaceId;
  int count;
  int open;
  long value;
  Status outcome = Status.OK;
  int reservedCompletionBytes;
  boolean answerable;

  /** RESERVE: the client copies, and makes the checksums of what it copies. */
  boolean isCopied;

  /** CLEAR and FLUSH: the next block to look at, and what is still being written. */
  int cursor;

  int cursorEnd;
  boolean scanning;
  int[] block = new int[0];
  int[] hold = new int[0];

  /** Where the place waits in the table of waiters, if it does. */
  int[] waiter = new int[0];

  long[] holdId = new long[0];
  byte[] status = new byte[0];
  byte[] tier = new byte[0];

  Operation(int poolIndex) {
    this.poolIndex = poolIndex;
  }

  /** What an OFFLOAD or ONBOARD is besides; made when it is first asked for, and kept. */
  DeviceJob job() {
    DeviceJob known = job;
    if (known == null) {
      known = new DeviceJob();
      job = known;
    }
    return known;
  }

  /** Whether it copies to or from a region. */
  boolean isDevice() {
    return verb == Verb.OFFLOAD || verb == Verb.ONBOARD;
  }

  /** Places are used again, and the sessions of gRPC all have the daemon's own number. */
  boolean isOf(Session session) {
    return sessionIndex == session.index && sessionId == session.id();
  }

  void size(int blocks) {
    count = blocks;
    open = 0;
    value = 0;
    outcome = Status.OK;
    departed = null;
    refusal = null;
    if (block.length < blocks) {
      int capacity = Math.max(64, Integer.highestOneBit(blocks - 1) << 1);
      block = new int[capacity];
      hold = new int[capacity];
      waiter = new int[capacity];
      holdId = new long[capacity];
      status = new byte[capacity];
      tier = new byte[capacity];
    }
    Arrays.fill(block, 0, blocks, Directory.NONE);
    Arrays.fill(hold, 0, blocks, HoldTable.NONE);
    Arrays.fill(waiter, 0, blocks, WaiterTable.NONE);
    Arrays.fill(tier, 0, blocks, (byte) 0);
  }
}
