package io.kvtier.protocol;

import java.util.List;

/** The counters of blocks that gets were given. */
public final class Hits {
  /** One for each place that the blocks came from. */
  public static final List<Counter> COUNTERS =
      List.of(
          Counter.HITS_HOST,
          Counter.HITS_SSD,
          Counter.HITS_OBJECT,
          Counter.HITS_GPU,
          Counter.HITS_NODE);

  private Hits() {}
}
