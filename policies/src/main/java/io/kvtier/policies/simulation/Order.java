package io.kvtier.policies.simulation;

import java.util.Locale;

/** In which order a request touches its blocks. */
public enum Order {
  /** As the prompt has them. */
  HEAD_FIRST,
  /** From the last to the first, so that the tail is the older part. */
  TAIL_FIRST;

  /** As the command line and reports have it. */
  public String text() {
    return name().toLowerCase(Locale.ROOT).replace('_', '-');
  }
}
