package io.kvtier.tiers.node;

import java.util.concurrent.atomic.LongAdder;

/**
 * The bytes of whole blocks and pieces that the links of a transport have moved in one way: on the
 * links themselves, or by their {@link Fabric}. For any thread.
 */
public final class BlockBytes {
  private final LongAdder received = new LongAdder();
  private final LongAdder sent = new LongAdder();

  void countReceived(long bytes) {
    received.add(bytes);
  }

  void countSent(long bytes) {
    sent.add(bytes);
  }

  public long received() {
    return received.sum();
  }

  public long sent() {
    return sent.sum();
  }
}
