package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.OperatorAnswer;
import io.kvtier.daemon.index.device.Devices;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.CompletionWriter;
import io.kvtier.daemon.index.session.Request;
import io.kvtier.daemon.index.session.RequestWatch;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionParts;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Utf8;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.slots.SlotAllocator;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * Hands each request to the class of its verb, and does what takes a few lines itself. A request
 * that needs no transfer is answered at once. Any other becomes an operation, which ends when its
 * last block is settled, when its deadline passes, or when its client cancels or dies. Confined to
 * the index.
 */
public final class Requests {
  private final Directory directory;
  private final Namespaces namespaces;
  private final BlockStore store;
  private final Devices devices;
  private final CompletionWriter writer;
  private final Counters counters;
  private final RequestWatch requests;
  private final Registrations registrations;
  private final Lookups lookups;
  private final Puts puts;
  private final Acquires acquires;
  private final Holdings holdings;
  private final Deletes deletes;
  private final Scans scans;
  private final Annotations annotations;
  private final LoadReports loadReports;
  private final Retentions retentions;
  private final OperationEnds ends;
  private final Admin admin;

  public Requests(
      IndexCore core, SessionParts parts, BlockStore store, Devices devices, Verbs verbs) {
    directory = core.directory();
    namespaces = core.namespaces();
    counters = core.counters();
    writer = parts.writer();
    requests = parts.watch();
    this.store = store;
    this.devices = devices;
    registrations = verbs.registrations;
    lookups = verbs.lookups;
    puts = verbs.puts;
    acquires = verbs.acquires;
    holdings = verbs.holdings;
    deletes = verbs.deletes;
    scans = verbs.scans;
    annotations = verbs.annotations;
    loadReports = verbs.loadReports;
    retentions = verbs.retentions;
    ends = verbs.ends;
    admin = verbs.admin;
  }

  /** The id of the namespace that sessions know by a number; -1: there is none. */
  int namespaceOf(int number) {
    return namespaces.idOf(number);
  }

  /** Carries a request out, or begins to. Its completion's space is promised. */
  void handle(Session session, Request request) throws ProtocolViolation {
    counters.add(Counter.REQUESTS, 1);
    session.countRequest();
    switch (request.verb) {
      case PING -> writer.completeShort(session, request, Status.OK, 0);
      case REGISTER, REGISTER_REGION, ADMIN -> {
        String text = textOf(session, request);
        if (text != null) {
          handle(session, request, text);
        }
      }
      case UNREGISTER -> registrations.unregister(session, request);
      case LOOKUP -> lookups.lookup(session, request);
      case LOOKUP_GROUPS -> lookups.lookupGroups(session, request);
      case RESERVE -> puts.reserve(session, request);
      case OFFLOAD -> {
        puts.reserve(session, request);
        // The copies begin at once, because the requests behind this one take time.
        devices.advance();
      }
      case COMMIT -> puts.commit(session, request);
      case ABORT, RELEASE -> holdings.end(session, request);
      case ACQUIRE -> acquires.acquire(session, request);
      case ONBOARD -> {
        acquires.acquire(session, request);
        devices.advance();
      }
      case UNREGISTER_REGION -> devices.unregister(session, request);
      case ADVERTISE, REVOKE -> devices.advertise(session, request);
      case PREFETCH, PIN, UNPIN -> eachBlock(session, request);
      case DELETE -> deletes.delete(session, request);
      case CLEAR, FLUSH -> {
        if (scans.begin(session, request) && request.verb == Verb.CLEAR) {
          devices.peers().deleteAll(request.namespaceId);
        }
      }
      case CANCEL -> cancel(session, request);
      case ANNOTATE -> annotations.annotate(session, request);
      case REPORT_LOADS -> loadReports.report(session, request);
      case RETAIN -> retentions.retain(session, request);
      case STATS -> throw new IllegalStateException("statistics are the adapter's");
    }
  }

  private void handle(Session session, Request request, String text) throws ProtocolViolation {
    switch (request.verb) {
      case REGISTER -> registrations.register(session, request, text);
      case REGISTER_REGION -> devices.register(session, request, text);
      default -> admin(session, request, text);
    }
  }

  /** The text of a request; null when the bytes are no text: then the request is refused. */
  private @Nullable String textOf(Session session, Request request) throws ProtocolViolation {
    byte[] utf8 = new byte[request.count];
    MemorySegment.copy(request.segment, request.body, MemorySegment.ofArray(utf8), 0, utf8.length);
    try {
      return Utf8.decode(utf8, 0, utf8.length);
    } catch (IllegalArgumentException e) {
      writer.refuse(
          session,
          request,
          Status.INVALID_ARGUMENT,
          "the text of " + request.verb + " is " + e.getMessage() + "; names are UTF-8");
      return null;
    }
  }

  private void cancel(Session session, Request request) throws ProtocolViolation {
    Status found = Status.OK;
    if (!ends.cancel(session, request.argument)) {
      found =
          session.id() == SlotAllocator.DAEMON
              ? Status.MISS
              : holdings.giveBackUnheard(session, request.argument);
    }
    writer.completeShort(session, request, found, 0);
  }

  private void admin(Session session, Request request, String text) throws ProtocolViolation {
    OperatorAnswer answer = admin.run(text, session.tenant());
    request.outcome = answer.status();
    requests.refused(request, answer.status(), answer.text());
    session.completeText(
        request.verb.code(),
        answer.status(),
        request.correlationId,
        answer.text(),
        CompletionWriter.ADMIN_BYTES_MAX);
  }

  private void eachBlock(Session session, Request request) throws ProtocolViolation {
    writer.begin(session, request);
    Namespaces.Namespace namespace = namespaces.byId(request.namespaceId);
    for (int i = 0; i < request.count; i++) {
      int block = directory.findInOrder(request, i);
      if (block == Directory.NONE && request.verb == Verb.PREFETCH && namespace != null) {
        block =
            store
                .fetches()
                .fetchSought(
                    namespace,
                    request.group,
                    request.keyBytes,
                    RequestDescriptor.PRIORITY_LOW,
                    true);
      }
      Status status =
          block == Directory.NONE
              ? Status.MISS
              : switch (request.verb) {
                case PREFETCH -> prefetch(block);
                case PIN -> holdings.pin(session, block);
                default -> holdings.unpin(session, block);
              };
      writer.add(status, TierId.NONE);
    }
    writer.end(request, 0);
  }

  private Status prefetch(int block) {
    return switch (store.first().state(block)) {
      case RESIDENT, STAGING -> Status.OK;
      case RESERVED, LEAVING -> Status.MISS;
      case NONE -> {
        if (store.stack().storedIn(block) == null) {
          yield Status.MISS;
        }
        yield store.loads().promote(block, RequestDescriptor.PRIORITY_LOW, true)
            ? Status.OK
            : Status.BUSY;
      }
    };
  }
}
