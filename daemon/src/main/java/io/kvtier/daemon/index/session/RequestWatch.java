package io.kvtier.daemon.index.session;

import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import java.lang.foreign.MemorySegment;

/**
 * Hears of requests from their arrival to their answer, for lines and spans of those with an id.
 */
public interface RequestWatch {
  /**
   * A request was taken.
   *
   * @param context the offset of the record's trace context; 0 when the record has none
   */
  void arrived(Request request, MemorySegment segment, long context, long nowNs)
      throws ProtocolViolation;

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

  /** A block was written by an operation: later stores of it are on that operation's account. */
  void wrote(int block, RequestOrigin origin);
}
