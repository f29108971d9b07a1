package io.kvtier.client.internal.shared;

import io.kvtier.client.BatchResult;
import io.kvtier.client.Blocks;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;

/** The outcome of a batch, put together from its windows by several threads. */
public final class Outcome {
  private final byte[] statuses;
  private final byte[] tiers;
  private Status status = Status.OK;
  private String detail = "";

  /** No outcomes yet: all blocks are OK, in no tier. */
  public Outcome(int count) {
    statuses = new byte[count];
    tiers = new byte[count];
  }

  /** Notes how one window was carried out; the first reason why one was not stays. */
  public synchronized void note(Status windowStatus, String windowDetail) {
    if (status == Status.OK) {
      status = windowStatus;
      detail = windowDetail;
    }
  }

  public synchronized void set(int index, Status blockStatus, TierId tier) {
    put(index, blockStatus, tier);
  }

  private void put(int index, Status blockStatus, TierId tier) {
    statuses[index] = (byte) blockStatus.code();
    tiers[index] = (byte) tier.code();
  }

  /** Sets a status for all blocks from one on. */
  public synchronized void rest(int from, Status blockStatus) {
    for (int i = from; i < statuses.length; i++) {
      put(i, blockStatus, TierId.NONE);
    }
  }

  /** The outcome, once: nothing must be set or noted any more. */
  public synchronized BatchResult result() {
    return new BatchResult(status, detail, Blocks.wrap(statuses, tiers));
  }
}
