package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.access.VerbRoles;
import io.kvtier.daemon.index.core.Limits;
import io.kvtier.daemon.index.session.CompletionWriter;
import io.kvtier.daemon.index.session.Request;
import io.kvtier.daemon.index.session.RequestWatch;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.AnnotationDescriptor;
import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.LoadReportDescriptor;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.RequestBody;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.slots.SlotAllocator;
import java.lang.foreign.MemorySegment;

/**
 * Decodes request records and checks every field before anything acts on it. The record lies in
 * memory that its client can still write: each field is read once. A record that can't have been
 * written by an honest client is a protocol violation; a request that is merely wrong is refused
 * with the reason.
 */
public final class RequestAdapter {
  /** Answers STATS. */
  @FunctionalInterface
  public interface State {
    /**
     * Answers with the state of the daemon, now or later. The space of the completion is free.
     *
     * @param asker the caller: the answer has only what that caller may see
     */
    void answer(Session session, long correlationId, Grant asker) throws ProtocolViolation;
  }

  private final Requests verbs;
  private final CompletionWriter writer;
  private final Limits limits;
  private final State state;
  private final RequestWatch requests;
  private final Request request = new Request();

  public RequestAdapter(
      Requests verbs, CompletionWriter writer, Limits limits, State state, RequestWatch requests) {
    this.verbs = verbs;
    this.writer = writer;
    this.limits = limits;
    this.state = state;
    this.requests = requests;
  }

  /**
   * Takes the session's next request.
   *
   * @return false when it must wait for room in the completion ring: it stays where it is
   */
  public boolean next(Session session, MemorySegment segment, long at, int recordBytes, long nowNs)
      throws ProtocolViolation {
    int verbCode = Words.getShort(segment, at + RequestDescriptor.VERB_OFFSET);
    Verb verb = Verb.of(verbCode);
    if (verb == null) {
      throw new ProtocolViolation("verb is " + verbCode + ", which is none");
    }
    int count = Words.getInt(segment, at + RequestDescriptor.COUNT_OFFSET);
    int flags = Words.getShort(segment, at + RequestDescriptor.FLAGS_OFFSET);
    int keyBytes = Words.getByte(segment, at + RequestDescriptor.KEY_BYTES_OFFSET);
    int countMax = countMax(verb);
    if (count < 0 || count > countMax) {
      throw new ProtocolViolation(
          verb + " has a count of " + count + ", expected 0 to " + countMax);
    }
    if ((flags & ~RequestDescriptor.FLAGS_ALL) != 0) {
      throw new ProtocolViolation(verb + " has unknown flags 0x" + Integer.toHexString(flags));
    }
    if (!Records.isReservedZero(segment, at)) {
      throw new ProtocolViolation(verb + " has something in the reserved bytes of its header");
    }
    if (Records.hasKeys(verb.body()) && (keyBytes < 1 || keyBytes > Protocol.KEY_BYTES_MAX)) {
      throw new ProtocolViolation(
          verb + " has keys of " + keyBytes + " bytes, expected 1 to " + Protocol.KEY_BYTES_MAX);
    }
    int expected = Records.request(verb, count, keyBytes, flags);
    if (recordBytes != expected) {
      throw new ProtocolViolation(
          verb
              + " of "
              + count
              + " takes "
              + expected
              + " bytes, but its record has "
              + recordBytes);
    }
    if ((flags & RequestDescriptor.FLAG_PARENT) != 0 && !Records.hasKeys(verb.body())) {
      throw new ProtocolViolation(verb + " has no keys, and so no parent of them");
    }
    if ((flags & RequestDescriptor.FLAG_CHECKSUMS) != 0
        && verb != Verb.COMMIT
        && verb != Verb.RESERVE) {
      throw new ProtocolViolation(verb + " brings no checksums");
    }
    if ((flags & RequestDescriptor.FLAG_ENCODED) != 0
        && verb != Verb.RESERVE
        && verb != Verb.ACQUIRE) {
      throw new ProtocolViolation(verb + " grants no blocks that could be encoded");
    }
    if ((flags & RequestDescriptor.FLAG_FRESH) != 0
        && verb != Verb.LOOKUP
        && verb != Verb.LOOKUP_GROUPS) {
      throw new ProtocolViolation(verb + " looks nothing up, so its answer can't be fresh");
    }
    if ((flags & RequestDescriptor.FLAG_EXPECTED) != 0 && verb != Verb.ACQUIRE) {
      throw new ProtocolViolation(verb + " gets no blocks that could be expected");
    }
    if ((flags & RequestDescriptor.FLAG_CORRUPT) != 0 && verb != Verb.RELEASE) {
      throw new ProtocolViolation(verb + " has read nothing that could be corrupt");
    }
    if ((flags & RequestDescriptor.IMPORTANCE_MASK) != 0
        && verb != Verb.RESERVE
        && verb != Verb.OFFLOAD) {
      throw new ProtocolViolation(verb + " brings no blocks that could be important");
    }
    boolean silent = (flags & RequestDescriptor.FLAG_SILENT) != 0;
    if (silent && verb != Verb.RELEASE && verb != Verb.ABORT && verb != Verb.CANCEL) {
      throw new ProtocolViolation(verb + " can't be silent");
    }
    int completionBytes =
        switch (verb) {
          case STATS -> CompletionWriter.STATS_BYTES_MAX;
          case ADMIN -> CompletionWriter.ADMIN_BYTES_MAX;
          default ->
              Math.max(
                  CompletionWriter.REFUSAL_BYTES_MAX,
                  verb.body() == RequestBody.TEXT
                      ? 0
                      : Records.completion(verb, count)
                          + (verb == Verb.LOOKUP ? CompletionDescriptor.PEERS_BYTES : 0));
        };
    if (!silent && !session.canPromise(completionBytes)) {
      return false;
    }
    request.verb = verb;
    request.flags = flags;
    request.count = count;
    request.keyBytes = keyBytes;
    request.keyStride = Records.keyStride(keyBytes);
    request.completionBytes = completionBytes;
    request.segment = segment;
    request.priority =
        Math.min(
            Words.getByte(segment, at + RequestDescriptor.PRIORITY_OFFSET),
            RequestDescriptor.PRIORITY_LOW);
    request.correlationId = Words.getLong(segment, at + RequestDescriptor.CORRELATION_OFFSET);
    int number = Words.getInt(segment, at + RequestDescriptor.NAMESPACE_OFFSET);
    request.namespaceId = isOfAll(verb, number) ? number : verbs.namespaceOf(number);
    request.group = Words.getShort(segment, at + RequestDescriptor.GROUP_OFFSET);
    request.argument = Words.getLong(segment, at + RequestDescriptor.ARGUMENT_OFFSET);
    long deadline = Words.getLong(segment, at + RequestDescriptor.DEADLINE_OFFSET);
    request.deadlineNs =
        deadline == 0
            ? nowNs + limits.times().deadlineNs()
            : Math.min(deadline, nowNs + limits.times().deadlineNsMax());
    if (verb.body() == RequestBody.KEYS_AND_BLOCKS) {
      // The records of other verbs have no such fields.
      request.region = Words.getInt(segment, at + RequestDescriptor.REGION_OFFSET);
      request.firstLayer = Words.getShort(segment, at + RequestDescriptor.FIRST_LAYER_OFFSET);
      request.endLayer = Words.getShort(segment, at + RequestDescriptor.END_LAYER_OFFSET);
      request.event = Words.getInt(segment, at + RequestDescriptor.EVENT_OFFSET);
      request.progress = Words.getInt(segment, at + RequestDescriptor.PROGRESS_OFFSET);
    }
    request.body = at + RequestDescriptor.HEADER_BYTES;
    request.depth = Words.getInt(segment, at + RequestDescriptor.DEPTH_OFFSET);
    request.parent = Request.NO_PARENT;
    if (request.has(RequestDescriptor.FLAG_PARENT)) {
      request.parent = request.body;
      request.body += request.keyStride;
    }
    request.shard = Words.getInt(segment, at + RequestDescriptor.SHARD_OFFSET);
    request.isOperation = false;
    request.outcome = Status.OK;
    request.done = 0;
    boolean hasContext = request.has(RequestDescriptor.FLAG_CONTEXT);
    requests.arrived(
        request,
        segment,
        hasContext ? at + recordBytes - RequestDescriptor.CONTEXT_BYTES : 0,
        nowNs);
    try {
      carryOut(session, request, number);
      if (!request.isOperation) {
        requests.answered(request);
      }
    } finally {
      requests.handled();
    }
    return true;
  }

  /**
   * Has a request done, or refuses it.
   *
   * @param number of the namespace, as the session knows it
   */
  private void carryOut(Session session, Request request, int number) throws ProtocolViolation {
    Verb verb = request.verb;
    if (!VerbRoles.mayCall(session.role(), verb)) {
      writer.refuse(
          session,
          request,
          Status.DENIED,
          VerbRoles.refusal(verb.toString(), session.role(), verb));
    } else if (request.shard != 0
        && verb != Verb.RESERVE
        && !request.has(RequestDescriptor.FLAG_EXPECTED)) {
      writer.refuse(
          session,
          request,
          Status.INVALID_ARGUMENT,
          "shard is "
              + Integer.toUnsignedLong(request.shard)
              + ": only RESERVE names a shard, and ACQUIRE of expected blocks a node; expected 0");
    } else if (verb == Verb.STATS) {
      state.answer(session, request.correlationId, asker(session));
    } else if (isOfAll(verb, number)) {
      flushAll(session);
    } else if (needsNamespace(verb) && !Registrations.isRegistered(session, request)) {
      writer.refuse(
          session,
          request,
          Status.NAMESPACE_UNKNOWN,
          "namespace " + number + " is not registered in this session: register it first");
    } else {
      verbs.handle(session, request);
    }
  }

  private static boolean isOfAll(Verb verb, int number) {
    return verb == Verb.FLUSH && number == RequestDescriptor.NAMESPACE_ALL;
  }

  /**
   * The caller who asks for the state: the session, or the remote caller for whom a session of the
   * daemon's own asks. The role of a remote caller is in the request.
   */
  private Grant asker(Session session) {
    return session.id() == SlotAllocator.DAEMON && request.argument == Request.STATS_FOR_ADMIN
        ? new Grant(session.name(), Role.ADMIN, session.tenant())
        : session.grant();
  }

  /** Flushes the blocks of all tenants, if the session may see all tenants. */
  private void flushAll(Session session) throws ProtocolViolation {
    if (session.role() == Role.ADMIN && session.tenant() == Grant.NO_TENANT) {
      verbs.handle(session, request);
    } else {
      writer.refuse(
          session,
          request,
          Status.DENIED,
          "FLUSH of all namespaces needs role admin, and no tenant");
    }
  }

  private static int countMax(Verb verb) {
    return switch (verb) {
      case REGISTER_REGION -> Protocol.REGION_TEXT_BYTES_MAX;
      case REGISTER, ADMIN -> Protocol.TEXT_BYTES_MAX;
      case ANNOTATE -> AnnotationDescriptor.BODY_BYTES_MAX;
      case REPORT_LOADS -> LoadReportDescriptor.BYTES;
      default -> Protocol.KEYS_MAX;
    };
  }

  private static boolean needsNamespace(Verb verb) {
    return switch (verb) {
      case LOOKUP, RESERVE, ACQUIRE, PREFETCH, PIN, UNPIN, DELETE, CLEAR, FLUSH -> true;
      case REGISTER_REGION, OFFLOAD, ONBOARD, ANNOTATE, ADVERTISE, REVOKE -> true;
      case REPORT_LOADS, RETAIN -> true;
      case UNREGISTER, COMMIT, ABORT, RELEASE, PING, REGISTER, CANCEL, STATS, ADMIN -> false;
      // Each key names a namespace.
      case LOOKUP_GROUPS, UNREGISTER_REGION -> false;
    };
  }
}
