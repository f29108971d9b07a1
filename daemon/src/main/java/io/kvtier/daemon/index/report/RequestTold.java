package io.kvtier.daemon.index.report;

import io.kvtier.protocol.Status;

/** What operators are told of a request that has an id: the trace id, in two halves. */
public sealed interface RequestTold {
  long traceHigh();

  long traceLow();

  /**
   * A request is answered, or a transfer on its account is over; times are CLOCK_MONOTONIC.
   *
   * @param parentId of the caller's span, or of the request's; 0: there is none
   * @param isRequest whether it is a request, and not a transfer
   * @param namespace empty where the request names none
   * @param blocks how many it was asked for
   * @param done how many of these are OK
   * @param bytes of blocks that are OK
   * @param waitNs how long it waited to be begun: a request in its ring, a transfer for its turn
   */
  record Span(
      long traceHigh,
      long traceLow,
      long spanId,
      long parentId,
      String name,
      boolean isRequest,
      String namespace,
      int blocks,
      int done,
      long bytes,
      long waitNs,
      Status status,
      long startNs,
      long endNs)
      implements RequestTold {}

  /** Something was refused outside of the index. */
  record Refusal(long traceHigh, long traceLow, boolean isWarning, String what)
      implements RequestTold {}

  /** Something went wrong, or was refused by the index. */
  record Line(long traceHigh, long traceLow, boolean isWarning, String text)
      implements RequestTold {}
}
