package io.kvtier.daemon.index.session;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * A request whose blocks may have to be waited for: what is known of them, and how many are still
 * open. Pooled; its arrays grow to the largest batch seen and stay.
 */
public final class Operation {
  public final int poolIndex;

  /** The session, when it has ended and copies of this operation are still under way. */
  @Nullable public Session departed;

  /** Why the request was not carried out, in words; null when there is nothing to add. */
  @Nullable public String refusal;

  public boolean active;
  public Verb verb = Verb.PING;
  long sessionId;
  int sessionIndex;
  public long correlationId;
  public long deadlineNs;

  /** When the round of the index began that took the request. */
  public long beganNs;

  /** The trace context of the request. */
  public final RequestOrigin origin = new RequestOrigin();

  public int namespaceId;
  public int count;
  public int open;
  public long value;
  public Status outcome = Status.OK;
  int reservedCompletionBytes;
  boolean answerable;

  /** RESERVE: the client makes the checksums while it copies. */
  public boolean isCopied;

  /** ACQUIRE and ONBOARD: who gets the blocks reads encoded ones. */
  public boolean readsEncoded;

  /** ACQUIRE: it waits for blocks that nobody has yet. */
  boolean isExpecting;

  /** RESERVE: the client writes only a shard of each block. */
  public boolean isOfShard;

  /** The region that has the shard. */
  public int shard;

  /** CLEAR and FLUSH: the next block to look at, and what is still being written. */
  public int cursor;

  public int cursorEnd;
  public boolean scanning;
  public int[] block = new int[0];
  public int[] hold = new int[0];

  /** The number of each place's waiter in the table of waiters. */
  int[] waiter = new int[0];

  public long[] holdId = new long[0];
  public byte[] status = new byte[0];
  public byte[] tier = new byte[0];

  Operation(int poolIndex) {
    this.poolIndex = poolIndex;
  }

  /** Whether it copies to or from a region. */
  public boolean isDevice() {
    return verb == Verb.OFFLOAD || verb == Verb.ONBOARD;
  }

  /** Whether it puts blocks that may become whole only with the bytes of other operations. */
  public boolean putsParts() {
    return isOfShard || verb == Verb.OFFLOAD;
  }

  /**
   * Whether the operation is of a session. Both numbers are compared: places are used again, and
   * all sessions of gRPC have the daemon's own id.
   */
  public boolean isOf(Session session) {
    return sessionIndex == session.index && sessionId == session.id();
  }

  void size(int blocks) {
    count = blocks;
    open = 0;
    value = 0;
    outcome = Status.OK;
    departed = null;
    refusal = null;
    isOfShard = false;
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
