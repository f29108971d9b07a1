package io.kvtier.daemon.index.session;

import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import java.lang.foreign.MemorySegment;

/**
 * Hears of requests from their arrival to their answer, for the log lines and spans of requests
 * with an id.
 */
public interface RequestWatch {
  /**
   * A request was taken.
   *
   * @param context the offset of the record's trace context; 0 when the record has none
   */
  void arrived(Request request, MemorySegment segment, long context, long nowNs)
      throws ProtocolViolation;

  /** The verb of a request has returned. Reads that begin later are not begun by the request. */
  void handled();

  /** A request is refused as a whole. */
  void refused(Request request, Status status, String why);

  /** A request that did not become an operation was answered. */
  void answered(Request request);

  /** A client has read blocks that do not match their checksums. */
  void foundCorrupt(Request request);

  /** A request has become an operation. */
  void began(Operation operation, RequestOrigin origin);

  /** An operation is about to be answered. */
  void ended(Operation operation);

  /**
   * An operation has written a block: later stores of the block count for the trace of that
   * operation.
   */
  void wrote(int block, RequestOrigin origin);
}
