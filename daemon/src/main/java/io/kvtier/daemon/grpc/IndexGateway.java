package io.kvtier.daemon.grpc;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.IndexAgent;
import io.kvtier.daemon.index.report.RequestTap;
import io.kvtier.daemon.index.session.IndexProcessor;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.loop.EventLoops;
import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RingConsumer;
import io.kvtier.protocol.RingProducer;
import io.kvtier.protocol.SessionRegion;
import io.kvtier.protocol.SessionRegionDescriptor;
import io.kvtier.protocol.SocketPaths;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.protocol.linux.ThreadCpus;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.slots.SlotAllocator;
import io.vertx.core.Context;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The session of the remote callers of one event loop: the client's ends of a pair of rings, in the
 * process that also holds the other ends. Requests are written and completions read on the event
 * loop, which never sleeps on the futex: it leaves the word set that says it does, and the index
 * gives it a task where it would wake another client.
 *
 * <p>The session has the daemon's own number, because what it writes the daemon writes: a slab that
 * remote callers filled needs no verification by local readers.
 */
final class IndexGateway implements Session.Owner, AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(IndexGateway.class);
  private static final int RING_BYTES = 4 << 20;
  private static final int QUEUE_MAX = 4096;
  private static final long RETRY_MS = 1;
  private static final long CLOSE_TIMEOUT_S = 5;

  private record Queued(
      long correlationId, IndexRequest request, @Nullable TraceContext context, long submittedNs) {}

  private record Pending(@Nullable TraceContext context, Consumer<IndexAnswer> answer) {}

  private final IndexAgent index;
  private final Runnable indexBell;
  private final IndexProcessor processor;
  private final RequestTap requestTap;
  private final Context loop;
  private final Arena arena = Arena.ofShared();
  private final SessionRegion region;
  private final Session session;
  private final RingProducer requests;
  private final RingConsumer completions;
  private final Map<Long, Pending> pending = new HashMap<>();
  private final ArrayDeque<Queued> queue = new ArrayDeque<>();
  private final Set<Integer> known = new HashSet<>();
  private final CountDownLatch released = new CountDownLatch(1);
  private volatile @Nullable Status ended;
  private long nextCorrelationId = 1;
  private boolean retryOrdered;

  /**
   * Opens the session.
   *
   * @param requestTap is told of requests that never come to the index
   * @param tenant whose blocks it sees; what each caller may is found out before it is asked, and
   *     where the answer depends on it, the request says it
   */
  IndexGateway(
      IndexAgent index,
      Runnable indexBell,
      IndexProcessor processor,
      RequestTap requestTap,
      int slabs,
      int tenant,
      Context loop)
      throws IOException {
    this.index = index;
    this.indexBell = indexBell;
    this.processor = processor;
    this.requestTap = requestTap;
    this.loop = loop;
    long bytes = SessionRegion.regionBytes(RING_BYTES, RING_BYTES);
    try (Descriptor memory = SharedMemory.create("kvtier-grpc", bytes)) {
      region = SessionRegion.create(memory, SlotAllocator.DAEMON, RING_BYTES, RING_BYTES, arena);
    }
    requests = region.requestProducer();
    completions = region.completionConsumer();
    session =
        new Session(
            SlotAllocator.DAEMON,
            Session.Client.of("gRPC", (int) ProcessHandle.current().pid(), SocketPaths.uid()),
            new Grant("gRPC", Role.WRITE, tenant),
            region,
            slabs,
            this);
    announceSleep();
    if (!index.offerOpen(session)) {
      arena.close();
      throw new IOException("the index takes no session for gRPC: too many wait");
    }
    indexBell.run();
  }

  // ---- on the event loop
  // ----------------------------------------------------------------------------------------

  /** Sends a request without a trace context. */
  long submit(IndexRequest request, Consumer<IndexAnswer> answer) {
    return submit(request, null, answer);
  }

  /**
   * Sends a request. The answer comes later, on the event loop; a silent request has none.
   *
   * @param context the trace context of the request
   * @return the number with which {@link #cancel} cancels the request
   */
  long submit(IndexRequest request, @Nullable TraceContext context, Consumer<IndexAnswer> answer) {
    long correlationId = nextCorrelationId++;
    Status reason = ended;
    if (reason != null) {
      if (!request.isSilent()) {
        refuseLater(
            new Pending(context, answer),
            Status.SESSION_ENDED,
            "the session of remote callers ended: " + reason);
      }
      return correlationId;
    }
    if (!request.isSilent()) {
      Pending one = new Pending(context, answer);
      if (queue.size() >= QUEUE_MAX) {
        refuseLater(one, Status.BUSY, "too many requests wait for the index");
        return correlationId;
      }
      pending.put(correlationId, one);
    }
    long submittedNs = context == null ? 0 : System.nanoTime();
    queue.add(new Queued(correlationId, request, context, submittedNs));
    flush();
    return correlationId;
  }

  /** Refuses a request later, when the caller of submit knows the request's number. */
  private void refuseLater(Pending one, Status status, String why) {
    later(() -> refuse(one, status, why));
  }

  /** Answers a request that the index has not seen. */
  private void refuse(@Nullable Pending one, Status status, String why) {
    if (one != null) {
      requestTap.refusedOutside(one.context, false, status + ": " + why);
      answer(one, IndexAnswer.refusal(status, why));
    }
  }

  /** Sends a request that has no answer. */
  void submitSilent(IndexRequest request) {
    submit(request, answer -> {});
  }

  /** Has a request completed soon, by {@link Status#CANCELLED} if it still waits. */
  void cancel(long correlationId) {
    if (!pending.containsKey(correlationId)) {
      return;
    }
    for (Iterator<Queued> i = queue.iterator(); i.hasNext(); ) {
      if (i.next().correlationId == correlationId) {
        i.remove();
        answer(pending.remove(correlationId), IndexAnswer.refusal(Status.CANCELLED, ""));
        return;
      }
    }
    submitSilent(IndexRequest.plain(Verb.CANCEL, 0, correlationId, 0));
  }

  // ---- namespaces
  // -----------------------------------------------------------------------------------------------

  /** The session has registered a namespace. */
  void knows(int namespaceId) {
    known.add(namespaceId);
  }

  /** Registers a namespace that another event loop registered, before what is sent next. */
  void know(Namespaces.Namespace namespace) {
    int namespaceId = namespace.id();
    if (known.add(namespaceId)) {
      submit(
          namespace.registration(),
          answer -> {
            if (answer.status() != Status.OK) {
              known.remove(namespaceId);
            }
          });
    }
  }

  /** Unregisters a namespace that no remote caller uses. */
  void forget(int namespaceId) {
    if (known.remove(namespaceId)) {
      submit(IndexRequest.plain(Verb.UNREGISTER, namespaceId, 0, 0), answer -> {});
    }
  }

  /** Runs something on the event loop after what already waits there. */
  void later(Runnable task) {
    loop.runOnContext(v -> task.run());
  }

  private void flush() {
    try {
      boolean written = false;
      for (Queued next = queue.peek(); next != null; next = queue.peek()) {
        long at = requests.tryClaim(next.request.recordBytes(next.context));
        if (at < 0) {
          break;
        }
        next.request.write(
            region.segment(), at, next.correlationId, next.context, next.submittedNs);
        queue.poll();
        written = true;
      }
      if (written) {
        requests.publish();
        indexBell.run();
      }
    } catch (ProtocolViolation e) {
      fail(Status.INTERNAL, String.valueOf(e.getMessage()));
      return;
    }
    if (!queue.isEmpty() && !retryOrdered) {
      retryOrdered = true; // nobody rings when the index has made room
      loop.owner()
          .setTimer(
              RETRY_MS,
              timer -> {
                retryOrdered = false;
                expireQueued();
                flush();
              });
    }
  }

  /** Requests whose deadline passed before they reached the ring. */
  private void expireQueued() {
    long now = System.nanoTime();
    ArrayDeque<Queued> late = new ArrayDeque<>();
    queue.removeIf(waiting -> {
      long deadline = waiting.request.deadlineNs();
      boolean isLate = deadline != 0 && now - deadline >= 0 && !waiting.request.isSilent();
      if (isLate) {
        late.add(waiting);
      }
      return isLate;
    });
    for (Queued request : late) {
      refuse(
          pending.remove(request.correlationId),
          Status.BUSY,
          "the index took no request before the deadline");
    }
  }

  private void announceSleep() {
    Words.putIntRelease(
        region.segment(), SessionRegionDescriptor.CLIENT_CPU_OFFSET, ThreadCpus.current() + 1);
    Words.putIntVolatile(region.segment(), SessionRegionDescriptor.CLIENT_WAITING_OFFSET, 1);
  }

  private void drain() {
    try {
      do {
        takeCompletions();
        announceSleep();
        // The word that announces the sleep must be visible before the last look at the ring: a
        // later writer then wakes this side.
        Words.fullFence();
      } while (completions.hasNext());
    } catch (ProtocolViolation e) {
      fail(Status.INTERNAL, String.valueOf(e.getMessage()));
    }
    if (!queue.isEmpty()) {
      flush();
    }
  }

  private void takeCompletions() throws ProtocolViolation {
    while (completions.hasNext()) {
      int bytes = completions.recordBytes();
      long at = completions.offset();
      long correlationId =
          Words.getLong(region.segment(), at + CompletionDescriptor.CORRELATION_OFFSET);
      IndexAnswer answer = IndexAnswer.read(region.segment(), at);
      completions.skip(bytes);
      completions.release();
      answer(pending.remove(correlationId), answer);
    }
  }

  private static void answer(@Nullable Pending one, IndexAnswer answer) {
    if (one != null) {
      try {
        one.answer.accept(answer);
      } catch (RuntimeException e) {
        LOG.error("the answer to a request was not taken", e); // the others of this loop go on
      }
    }
  }

  private void fail(Status reason, String why) {
    if (ended == null) {
      LOG.error("the session of remote callers ended: {}: {}", reason, why);
      ended = reason;
    }
    queue.clear();
    for (Long correlationId : pending.keySet().toArray(Long[]::new)) {
      refuse(pending.remove(correlationId), Status.SESSION_ENDED, why);
    }
  }

  // ---- called by the index
  // --------------------------------------------------------------------------------------

  @Override
  public void wake(Session which) {
    processor.woken(which.clientCpu());
    EventLoops.run(loop, this::drain);
  }

  @Override
  public void end(Session which, Status reason, String why) {
    LOG.error("the index ended the session of remote callers: {}: {}", reason, why);
    ended = reason;
    EventLoops.run(loop, () -> fail(reason, why));
    index.offerClose(which);
  }

  @Override
  public void released(Session which) {
    released.countDown();
  }

  /** Gives everything back to the index, which must still run; the event loop must not. */
  @Override
  public void close() {
    if (ended == null) {
      while (!index.offerClose(session)) {
        Thread.onSpinWait();
      }
    }
    indexBell.run();
    try {
      if (released.await(CLOSE_TIMEOUT_S, TimeUnit.SECONDS)) {
        arena.close();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
