package io.kvtier.daemon.index;

import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import java.util.BitSet;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * The pool of operations: requests of which a block may have to be waited for. An operation is
 * answered when its last open place is decided; until then its completion's space stays promised.
 */
final class Operations {
  private final SessionTable sessions;
  private final HoldTable holds;
  private final CompletionWriter writer;
  private final Latencies latencies;
  private final RequestTap requests;
  private final int perSessionMax;
  private final Operation[] pool;
  private final int[] stack;
  private Consumer<Operation> deviceEnded = _ -> {};
  private UnheardEnd endUnheard = (_, _) -> {};
  private int free;

  /** Hears of a hold that has ended before its client heard of it. */
  interface UnheardEnd {
    void accept(long holdId, Session session);
  }

  Operations(
      SessionTable sessions,
      HoldTable holds,
      CompletionWriter writer,
      Latencies latencies,
      RequestTap requests,
      int operationsMax,
      int perSessionMax) {
    this.sessions = sessions;
    this.holds = holds;
    this.writer = writer;
    this.latencies = latencies;
    this.requests = requests;
    this.perSessionMax = perSessionMax;
    pool = new Operation[operationsMax];
    stack = new int[operationsMax];
    for (int i = operationsMax - 1; i >= 0; i--) {
      pool[i] = new Operation(i);
      stack[free++] = i;
    }
  }

  /** Sets who is told when an operation on a region has ended. */
  void whenDeviceEnds(Consumer<Operation> told) {
    deviceEnded = told;
  }

  /** Sets who is told of holds that have ended before their operation was answered. */
  void whenEndsUnheard(UnheardEnd told) {
    endUnheard = told;
  }

  /** Begins an operation; null when the request was refused because there are too many. */
  @Nullable Operation begin(Session session, Request request, int count) throws ProtocolViolation {
    Share share = session.share;
    if (free == 0
        || session.operations >= perSessionMax
        || share.operations >= share.operationsMax) {
      writer.refuse(
          session,
          request,
          Status.BUSY,
          "too many operations in flight ("
              + session.operations
              + " of this session): wait for completions first");
      return null;
    }
    Operation operation = pool[stack[--free]];
    operation.active = true;
    operation.verb = request.verb;
    operation.sessionId = session.id();
    operation.sessionIndex = session.index;
    operation.correlationId = request.correlationId;
    operation.deadlineNs = request.deadlineNs;
    operation.beganNs = latencies.roundNs();
    operation.namespaceId = request.namespaceId;
    operation.isCopied = request.has(RequestDescriptor.FLAG_CHECKSUMS);
    operation.answerable = !request.has(RequestDescriptor.FLAG_SILENT);
    operation.size(count);
    requests.began(operation, request.origin);
    request.isOperation = true;
    session.operations++;
    share.operations++;
    return operation;
  }

  /** Notes the namespaces that operations under way are about. */
  void noteInUse(BitSet ids) {
    for (Operation operation : pool) {
      if (operation.active && operation.namespaceId != RequestDescriptor.NAMESPACE_ALL) {
        ids.set(operation.namespaceId);
      }
    }
  }

  /** Ends the operation if nothing of it is open; otherwise its completion's space is promised. */
  void endOrWait(Session session, Operation operation, Request request) {
    if (operation.open == 0) {
      complete(session, operation);
    } else {
      promise(session, operation, request);
    }
  }

  /** Keeps the space of the operation's completion. */
  void promise(Session session, Operation operation, Request request) {
    operation.reservedCompletionBytes = request.completionBytes;
    session.reservedCompletionBytes += request.completionBytes;
  }

  /** One place of an operation is decided. */
  static void decide(Operation operation, int place, Status status, TierId tier) {
    operation.status[place] = (byte) status.code();
    operation.tier[place] = (byte) tier.code();
  }

  /** A place that was open is decided: the last one ends the operation. */
  void closePlace(Operation operation) {
    if (--operation.open == 0 && !operation.scanning) {
      complete(sessionOf(operation), operation);
    }
  }

  /** Answers an operation of which nothing is open. */
  void complete(Session session, Operation operation) {
    boolean hasWaited = operation.reservedCompletionBytes > 0;
    session.reservedCompletionBytes -= operation.reservedCompletionBytes;
    operation.reservedCompletionBytes = 0;
    latencies.answered(operation.verb, operation.beganNs);
    requests.ended(operation);
    if (operation.isDevice() && operation.departed == null) {
      operation.job().progress.end(session);
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
      deviceEnded.accept(operation);
    }
    session.operations--;
    session.share.operations--;
    operation.active = false;
    stack[free++] = operation.poolIndex;
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

  Operation at(int poolIndex) {
    return pool[poolIndex];
  }

  /** The session of an active operation. */
  Session sessionOf(Operation operation) {
    if (operation.departed != null) {
      return operation.departed;
    }
    Session session = sessions.owner(operation.sessionIndex);
    if (!operation.isOf(session)) {
      throw new IllegalStateException("an operation outlived its session");
    }
    return session;
  }

  /** Operations whose session has ended: they wait for their copies alone. */
  int departed() {
    int count = 0;
    for (Operation operation : pool) {
      count += operation.active && operation.departed != null ? 1 : 0;
    }
    return count;
  }

  int max() {
    return pool.length;
  }

  int active() {
    return pool.length - free;
  }
}
