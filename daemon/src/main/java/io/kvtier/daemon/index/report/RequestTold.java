package io.kvtier.daemon.index.report;

import io.kvtier.protocol.Status;

/** What operators are told of a request that has an id: the trace id, in two halves. */
public sealed interface RequestTold {
  long traceHigh();

  long traceLow();

  /**
   * A request is answered, or a transfer on its account is over; times are CLOCK_MONOTONIC.
   *
   * @param isRequest whether it is a request, and not a transfer
   */
  record Span(
      SpanIds ids,
      String name,
      boolean isRequest,
      SpanWork work,
      Status status,
      long startNs,
      long endNs)
      implements RequestTold {
    @Override
    public long traceHigh() {
      return ids.traceHigh();
    }

    @Override
    public long traceLow() {
      return ids.traceLow();
    }
  }

  /**
   * Which span it is.
   *
   * @param parentId of the caller's span, or of the request's; 0: there is none
   */
  record SpanIds(long traceHigh, long traceLow, long spanId, long parentId) {}

  /**
   * What was done.
   *
   * @param namespace empty where the request names none
   * @param blocks how many were asked for
   * @param done how many of these are OK
   * @param bytes of blocks that are OK
   * @param waitNs how long it waited to be begun: a request in its ring, a transfer for its turn
   */
  record SpanWork(String namespace, int blocks, int done, long bytes, long waitNs) {}

  /** Something was refused outside of the index. */
  record Refusal(long traceHigh, long traceLow, boolean isWarning, String what)
      implements RequestTold {}

  /** Something went wrong, or was refused by the index. */
  record Line(long traceHigh, long traceLow, boolean isWarning, String text)
      implements RequestTold {}
}
