package io.kvtier.client;

import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;

/** The outcome of a batch, put together from its windows by several threads. */
final class Outcome {
  private final Blocks blocks;
  private Status status = Status.OK;
  private String detail = "";

  Outcome(int count) {
    blocks = new Blocks(count);
  }

  /** How one window was carried out; the first reason why it was not stays. */
  synchronized void note(Status windowStatus, String windowDetail) {
    if (status == Status.OK) {
      status = windowStatus;
      detail = windowDetail;
    }
  }

  synchronized void set(int index, Status blockStatus, TierId tier) {
    blocks.set(index, blockStatus, tier);
  }

  /** All blocks from one on have this status, whatever was said of them before. */
  synchronized void rest(int from, Status blockStatus) {
    for (int i = from; i < blocks.count(); i++) {
      blocks.set(i, blockStatus, TierId.NONE);
    }
  }

  synchronized BatchResult result() {
    return new BatchResult(status, detail, blocks);
  }
}
