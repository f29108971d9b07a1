package io.kvtier.daemon.index.session;

import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.Share;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import org.jspecify.annotations.Nullable;

/**
 * How operations begin and end. An operation is answered when its last open place is decided; until
 * then the space of its completion stays promised. Confined to the index.
 */
public final class Operations {
  private final SessionTable sessions;
  private final HoldTable holds;
  private final CompletionWriter writer;
  private final Latencies latencies;
  private final RequestWatch requests;
  private final int perSessionMax;
  private final OperationPool pool;
  private DeviceOperations devices = NO_DEVICES;
  private UnheardEnd endUnheard = (_, _) -> {};

  /** Hears of the end of operations that copy to or from a device. */
  public interface DeviceOperations {
    /** An operation is about to be answered. */
    void beforeAnswer(Session session, Operation operation);

    /** An operation was answered, or has nobody to answer. */
    void ended(Operation operation);
  }

  private static final DeviceOperations NO_DEVICES =
      new DeviceOperations() {
        @Override
        public void beforeAnswer(Session session, Operation operation) {}

        @Override
        public void ended(Operation operation) {}
      };

  /** Hears of a hold that has ended before its client heard of it. */
  public interface UnheardEnd {
    void accept(long holdId, Session session);
  }

  public Operations(
      SessionTable sessions,
      HoldTable holds,
      CompletionWriter writer,
      Latencies latencies,
      RequestWatch requests,
      OperationPool pool,
      int perSessionMax) {
    this.sessions = sessions;
    this.holds = holds;
    this.writer = writer;
    this.latencies = latencies;
    this.requests = requests;
    this.perSessionMax = perSessionMax;
    this.pool = pool;
  }

  /** Sets who hears of the end of operations that copy to or from a device. */
  public void connect(DeviceOperations told) {
    devices = told;
  }

  /** Sets who is told of holds that have ended before their operation was answered. */
  public void whenEndsUnheard(UnheardEnd told) {
    endUnheard = told;
  }

  /** Begins an operation; null when the request was refused because there are too many. */
  @Nullable
  public Operation begin(Session session, Request request, int count) throws ProtocolViolation {
    Share share = session.share;
    boolean mayBegin = session.operations < perSessionMax && share.operations < share.operationsMax;
    Operation operation = mayBegin ? pool.take() : null;
    if (operation == null) {
      writer.refuse(
          session,
          request,
          Status.BUSY,
          "too many operations in flight ("
              + session.operations
              + " of this session): wait for completions first");
      return null;
    }
    operation.active = true;
    operation.verb = request.verb;
    operation.sessionId = session.id();
    operation.sessionIndex = session.index;
    operation.correlationId = request.correlationId;
    operation.deadlineNs = request.deadlineNs;
    operation.beganNs = latencies.roundNs();
    operation.namespaceId = request.namespaceId;
    operation.isCopied = request.has(RequestDescriptor.FLAG_CHECKSUMS);
    // A GPU decodes on the way to its engine.
    operation.readsEncoded =
        request.has(RequestDescriptor.FLAG_ENCODED) || request.verb == Verb.ONBOARD;
    operation.isExpecting = request.has(RequestDescriptor.FLAG_EXPECTED);
    operation.answerable = !request.has(RequestDescriptor.FLAG_SILENT);
    operation.size(count);
    requests.began(operation, request.origin);
    request.isOperation = true;
    session.operations++;
    share.operations++;
    return operation;
  }

  /** Ends the operation if nothing of it is open; otherwise its completion's space is promised. */
  public void endOrWait(Session session, Operation operation, Request request) {
    if (operation.open == 0) {
      complete(session, operation);
    } else {
      promise(session, operation, request);
    }
  }

  /** Keeps the space of the operation's completion. */
  public void promise(Session session, Operation operation, Request request) {
    operation.reservedCompletionBytes = request.completionBytes;
    session.reservedCompletionBytes += request.completionBytes;
  }

  /** One place of an operation is decided. */
  public static void decide(Operation operation, int place, Status status, TierId tier) {
    operation.status[place] = (byte) status.code();
    operation.tier[place] = (byte) tier.code();
  }

  /** A place that was open is decided: the last one ends the operation. */
  public void closePlace(Operation operation) {
    if (--operation.open == 0 && !operation.scanning) {
      complete(sessionOf(operation), operation);
    }
  }

  /** Answers an operation of which nothing is open. */
  public void complete(Session session, Operation operation) {
    boolean hasWaited = operation.reservedCompletionBytes > 0;
    session.reservedCompletionBytes -= operation.reservedCompletionBytes;
    operation.reservedCompletionBytes = 0;
    if (!operation.isExpecting) {
      latencies.answered(operation.verb, operation.beganNs);
    }
    requests.ended(operation);
    if (operation.isDevice()) {
      devices.beforeAnswer(session, operation);
    }
    try {
      if (operation.answerable && !session.ended) {
        if (hasWaited) {
          dropEndedHolds(session, operation);
        }
        writer.write(session, operation);
      }
    } catch (ProtocolViolation violation) {
      sessions.end(session, Status.INVALID_ARGUMENT, String.valueOf(violation.getMessage()));
    }
    if (operation.isDevice()) {
      devices.ended(operation);
    }
    session.operations--;
    session.share.operations--;
    operation.active = false;
    pool.give(operation);
  }

  /** A lease may have ended while the operation waited for its other blocks. */
  private void dropEndedHolds(Session session, Operation operation) {
    byte kind = operation.verb == Verb.ACQUIRE ? HoldTable.LEASE : HoldTable.RESERVATION;
    for (int i = 0; i < operation.count; i++) {
      if (operation.hold[i] != HoldTable.NONE
          && holds.find(operation.holdId[i], kind, session) == HoldTable.NONE) {
        endUnheard.accept(operation.holdId[i], session);
        operation.hold[i] = HoldTable.NONE;
        decide(operation, i, Status.STALE, TierId.NONE);
      }
    }
  }

  /** The operations, in use or not. */
  public OperationPool pool() {
    return pool;
  }

  /** The operation with a number, whether or not it is in use. */
  public Operation at(int poolIndex) {
    return pool.at(poolIndex);
  }

  /** How many operations there are, in use or not. */
  public int max() {
    return pool.max();
  }

  /** How many operations are in use. */
  public int active() {
    return pool.active();
  }

  /** The session of an active operation. */
  public Session sessionOf(Operation operation) {
    if (operation.departed != null) {
      return operation.departed;
    }
    Session session = sessions.owner(operation.sessionIndex);
    if (!operation.isOf(session)) {
      throw new IllegalStateException("an operation outlived its session");
    }
    return session;
  }
}
