package io.kvtier.daemon.index.core;

import io.kvtier.protocol.Counter;

/** Counts the forms in which blocks are put, raw or encoded. Confined to the index. */
public final class PutForms {
  private final Counters counters;

  /** Counts in the counters of an index. */
  public PutForms(Counters counters) {
    this.counters = counters;
  }

  /** Counts a block whose bytes have arrived, if its namespace has an encoding. */
  public void count(Namespaces.Namespace namespace, boolean isEncoded) {
    if (namespace.encoding() == null) {
      return;
    }
    if (isEncoded) {
      counters.add(Counter.PUT_ENCODED, 1);
      counters.add(Counter.PUT_ENCODED_BYTES, namespace.storedBytes(true));
      counters.add(Counter.PUT_ENCODED_RAW_BYTES, namespace.blockBytes());
    } else {
      counters.add(Counter.PUT_RAW, 1);
    }
  }
}
