package io.kvtier.client;

import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TraceContext;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;

/**
 * Get and put: operations that copy. Large batches go in sub-batches, so that the daemon works on
 * the next or the last one while this one is copied.
 */
final class Transfers {
  private static final long PUT_BYTES = 8L << 20;
  private static final int COMMITS_AHEAD = 4;

  private static final Copies COPIES = Copies.OF_THIS_MACHINE;

  private final Operations operations;
  private final Executor copies;
  private final Announcing announcing = new Announcing();

  /**
   * Transfers over operations.
   *
   * @param copies runs the copies of asynchronous gets and whole asynchronous puts
   */
  Transfers(Operations operations, Executor copies) {
    this.operations = operations;
    this.copies = copies;
  }

  /** The options of a window that begins with that key. */
  static Options at(Options options, Keys keys, int from) {
    return from == 0
        ? options
        : options.withDepth(options.depth() + from).withParent(keys.slice(from - 1, from));
  }

  // ---- get

  BatchResult get(
      Namespace namespace, Keys keys, List<MemorySegment> destinations, Options options) {
    checkDestinations(namespace, keys, destinations);
    return new Get(operations, namespace, keys, destinations, options).run();
  }

  CompletableFuture<BatchResult> getAsync(
      Namespace namespace, Keys keys, List<MemorySegment> destinations, Options options) {
    checkDestinations(namespace, keys, destinations);
    return new Get(operations, namespace, keys, destinations, options).start(copies);
  }

  /**
   * Copies one leased block out, and says whether the copy counts; unless the leases are cut off by
   * the time the last of them is copied.
   */
  static Status copyOut(Leases leases, int index, MemorySegment destination) {
    MemorySegment source = leases.segment(index);
    long bytes = source.byteSize();
    if (bytes > destination.byteSize()) {
      return Status.TOO_LARGE;
    }
    boolean matches = true;
    if (leases.mustVerify(index)) {
      // The copy is verified, not the source: it is what the caller keeps.
      matches = leases.matches(index, COPIES.copyWithChecksum(source, destination));
    } else {
      COPIES.copy(source, destination);
    }
    if (leases.seemsEnded()) {
      return Status.STALE;
    }
    return matches ? Status.OK : Status.CORRUPT;
  }

  /** Checks the arguments of a get. */
  static void checkDestinations(
      CacheNamespace namespace, Keys keys, List<MemorySegment> destinations) {
    Objects.requireNonNull(namespace, "the namespace is null");
    Objects.requireNonNull(keys, "keys is null");
    Objects.requireNonNull(destinations, "the list of destinations is null");
    if (destinations.size() != keys.count()) {
      throw new IllegalArgumentException(
          keys.count() + " keys, but " + destinations.size() + " destinations");
    }
    for (MemorySegment destination : destinations) {
      Objects.requireNonNull(destination, "a destination is null");
      if (destination.byteSize() < namespace.blockBytes()) {
        throw new IllegalArgumentException(
            "a destination has "
                + destination.byteSize()
                + " bytes, expected at least "
                + namespace.blockBytes()
                + ": a block of namespace '"
                + namespace.name()
                + "'");
      }
      if (destination.isReadOnly()) {
        throw new IllegalArgumentException(
            "a destination is read-only, expected writable memory: " + destination);
      }
      if (!destination.isNative() && !(destination.heapBase().orElse(null) instanceof byte[])) {
        throw new IllegalArgumentException(
            "a destination is native memory or a byte array, not " + destination);
      }
    }
  }

  // ---- put

  CompletableFuture<BatchResult> putAsync(
      Namespace namespace, Keys keys, List<MemorySegment> sources, Options options) {
    return putAsync(namespace, keys, sources, null, options);
  }

  CompletableFuture<BatchResult> putAsync(
      Namespace namespace,
      Keys keys,
      List<MemorySegment> sources,
      @Nullable List<byte[]> annotations,
      Options options) {
    checkSources(namespace, keys, sources, annotations);
    OperationFuture<BatchResult> future = new OperationFuture<>();
    AtomicBoolean cancelled = new AtomicBoolean();
    future.onCancel(() -> cancelled.set(true));
    TraceContext context = RequestContext.current();
    Runnable put =
        () -> {
          try {
            future.answer(
                RequestContext.resume(
                    context, () -> put(namespace, keys, sources, annotations, options, cancelled)));
          } catch (RuntimeException | Error e) {
            future.completeExceptionally(e);
          }
        };
    try {
      copies.execute(put);
    } catch (RejectedExecutionException e) {
      // The client is closed: there is no session, and so no waiting.
      put.run();
    }
    return future;
  }

  BatchResult put(Namespace namespace, Keys keys, List<MemorySegment> sources, Options options) {
    return put(namespace, keys, sources, null, options);
  }

  BatchResult put(
      Namespace namespace,
      Keys keys,
      List<MemorySegment> sources,
      @Nullable List<byte[]> annotations,
      Options options) {
    checkSources(namespace, keys, sources, annotations);
    return put(namespace, keys, sources, annotations, options, null);
  }

  private BatchResult put(
      Namespace namespace,
      Keys keys,
      List<MemorySegment> sources,
      @Nullable List<byte[]> annotations,
      Options options,
      @Nullable AtomicBoolean cancelled) {
    long deadlineNs = operations.deadlineNs(options);
    int chunk = Math.clamp(PUT_BYTES / namespace.blockBytes(), 1, Protocol.KEYS_MAX);
    int count = keys.count();
    Outcome outcome = new Outcome(count);
    ArrayDeque<Commit> commits = new ArrayDeque<>();
    // What is asked for and not waited for yet: whoever waits for it reads it and gives it back.
    Batch ahead = startReserve(namespace, keys, 0, Math.min(count, chunk), options, deadlineNs);
    int from = 0;
    try {
      while (ahead != null) {
        Batch reserved = ahead;
        int next = from + reserved.count;
        boolean more = next < count && (cancelled == null || !cancelled.get());
        ahead =
            more
                ? startReserve(
                    namespace, keys, next, Math.min(count, next + chunk), options, deadlineNs)
                : null;
        Reservations reservations =
            operations.await(reserved, batch -> Reservations.read(operations, batch, options));
        List<Batch> annotating =
            annotations == null
                ? List.of()
                : annotate(
                    namespace,
                    keys.slice(from, next),
                    annotations.subList(from, next),
                    reservations,
                    options,
                    deadlineNs);
        commits.add(copyIn(reservations, sources, from, annotating, !more, deadlineNs));
        if (commits.size() > COMMITS_AHEAD) {
          commits.remove().note(outcome);
        }
        from = next;
      }
      outcome.rest(from, Status.CANCELLED);
    } finally {
      if (ahead != null) {
        // Only after misuse: the reservations ahead are waited for, and given back.
        operations.await(ahead, batch -> Reservations.read(operations, batch, options)).close();
      }
      for (Commit commit : commits) {
        commit.note(outcome);
      }
    }
    return outcome.result();
  }

  private Batch startReserve(
      Namespace namespace, Keys keys, int from, int to, Options options, long deadlineNs) {
    return operations.reserveForCopies(
        namespace, keys.slice(from, to), at(options, keys, from), deadlineNs);
  }

  /**
   * Fills what was reserved, and sends the commit.
   *
   * @param annotating what else is under way on account of these blocks
   * @param last nothing follows: somebody will wait for this commit
   */
  private Commit copyIn(
      Reservations reservations,
      List<MemorySegment> sources,
      int from,
      List<Batch> annotating,
      boolean last,
      long deadlineNs) {
    int[] checksums = new int[reservations.count()];
    long bytes = reservations.granted() * (sources.isEmpty() ? 0 : sources.getFirst().byteSize());
    long left = bytes;
    long ahead = announcing.aheadBytes();
    long begunNs = System.nanoTime();
    try {
      for (int i = 0; i < reservations.count(); i++) {
        if (reservations.isReserved(i)) {
          MemorySegment source = sources.get(from + i);
          MemorySegment slot = reservations.segment(i);
          boolean little = last && left > ahead && left - source.byteSize() <= ahead;
          left -= source.byteSize();
          checksums[i] =
              little
                  ? COPIES.copyWithChecksum(
                      source, slot, ahead - left, reservations::announceCommit)
                  : COPIES.copyWithChecksum(source, slot);
        }
      }
      announcing.copied(bytes, System.nanoTime() - begunNs);
      return new Commit(
          reservations, reservations.beginCommit(checksums, deadlineNs), annotating, from);
    } catch (RuntimeException e) {
      annotating.forEach(reservations::awaitValue);
      reservations.close();
      throw e;
    }
  }

  /** A sub-batch whose commit is on its way. */
  private record Commit(Reservations reservations, Batch batch, List<Batch> annotating, int from) {
    void note(Outcome outcome) {
      for (Batch one : annotating) {
        // Blocks without their annotation are blocks all the same.
        var _ = reservations.awaitValue(one);
      }
      BatchResult result = reservations.await(batch);
      outcome.note(result.status(), result.detail());
      for (int i = 0; i < result.blocks().count(); i++) {
        outcome.set(from + i, result.blocks().status(i), result.blocks().tier(i));
      }
    }
  }

  /** Before the commit, so that the blocks have their annotations when they become visible. */
  private List<Batch> annotate(
      Namespace namespace,
      Keys keys,
      List<byte[]> annotations,
      Reservations reservations,
      Options options,
      long deadlineNs) {
    Session session = reservations.session();
    if (session == null) {
      return List.of();
    }
    return operations.annotate(
        session,
        namespace.registration(session).id(),
        AnnotationBodies.of(keys, annotations, reservations::isReserved),
        options,
        deadlineNs);
  }

  /** Checks the arguments of a put. */
  static void checkSources(
      CacheNamespace namespace,
      Keys keys,
      List<MemorySegment> sources,
      @Nullable List<byte[]> annotations) {
    Objects.requireNonNull(namespace, "the namespace is null");
    Objects.requireNonNull(keys, "keys is null");
    Objects.requireNonNull(sources, "the list of sources is null");
    if (annotations != null) {
      AnnotationBodies.check(keys, annotations);
    }
    if (sources.size() != keys.count()) {
      throw new IllegalArgumentException(
          keys.count() + " keys, but " + sources.size() + " sources");
    }
    for (MemorySegment source : sources) {
      Objects.requireNonNull(source, "a source is null");
      if (source.byteSize() != namespace.blockBytes()) {
        throw new IllegalArgumentException(
            "a source has "
                + source.byteSize()
                + " bytes, expected "
                + namespace.blockBytes()
                + ": a block of namespace '"
                + namespace.name()
                + "'");
      }
    }
  }
}
