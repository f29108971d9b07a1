package io.kvtier.daemon.index.report;

import io.kvtier.protocol.Status;

/** A report about a request that has an id. The trace id has two halves. */
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
   * The ids of a span.
   *
   * @param parentId the id of the caller's span, or of the request's; 0 when there is none
   */
  record SpanIds(long traceHigh, long traceLow, long spanId, long parentId) {}

  /**
   * The work of a request or a transfer.
   *
   * @param namespace empty where the request names none
   * @param blocks the number of blocks in the request
   * @param done the number of blocks that are OK
   * @param bytes the bytes of blocks that are OK
   * @param waitNs the wait before the beginning: of a request in its ring, of a transfer for its
   *     turn
   */
  record SpanWork(String namespace, int blocks, int done, long bytes, long waitNs) {}

  /** A request was refused outside of the index. */
  record Refusal(long traceHigh, long traceLow, boolean isWarning, String what)
      implements RequestTold {}

  /** A request failed, or the index refused it. */
  record Line(long traceHigh, long traceLow, boolean isWarning, String text)
      implements RequestTold {}
}
