package io.kvtier.client.internal.local;

import io.kvtier.client.BatchResult;
import io.kvtier.client.Keys;
import io.kvtier.client.Options;
import io.kvtier.client.RequestContext;
import io.kvtier.client.internal.session.Session;
import io.kvtier.client.internal.shared.CopyArguments;
import io.kvtier.client.internal.shared.Outcome;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.linux.BlockCoder;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.BitSet;
import java.util.List;
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
  private static final BlockCoder CODER = BlockCoder.OF_THIS_MACHINE;

  private final Operations operations;
  private final Submitter submitter;
  private final Annotations annotations;
  private final Executor copies;
  private final Announcing announcing = new Announcing();

  /**
   * Transfers over operations.
   *
   * @param copies runs the copies of asynchronous gets and whole asynchronous puts
   */
  Transfers(Operations operations, Annotations annotations, Executor copies) {
    this.operations = operations;
    this.submitter = operations.submitter();
    this.annotations = annotations;
    this.copies = copies;
  }

  // ---- get

  BatchResult get(
      Registrar namespace, Keys keys, List<MemorySegment> destinations, Options options) {
    CopyArguments.checkDestinations(namespace.properties(), keys, destinations);
    return new Get(operations, namespace, keys, destinations, options).run();
  }

  CompletableFuture<BatchResult> getAsync(
      Registrar namespace, Keys keys, List<MemorySegment> destinations, Options options) {
    CopyArguments.checkDestinations(namespace.properties(), keys, destinations);
    return new Get(operations, namespace, keys, destinations, options).start(copies);
  }

  // ---- put

  CompletableFuture<BatchResult> putAsync(
      Registrar namespace, Keys keys, List<MemorySegment> sources, Options options) {
    return putAsync(namespace, keys, sources, null, options);
  }

  CompletableFuture<BatchResult> putAsync(
      Registrar namespace,
      Keys keys,
      List<MemorySegment> sources,
      @Nullable List<byte[]> bytes,
      Options options) {
    CopyArguments.checkSources(namespace.properties(), keys, sources, bytes);
    OperationFuture<BatchResult> future = new OperationFuture<>();
    AtomicBoolean cancelled = new AtomicBoolean();
    future.onCancel(() -> cancelled.set(true));
    TraceContext context = RequestContext.current();
    Runnable put =
        () -> {
          try {
            future.answer(
                Operations.in(
                    context, () -> put(namespace, keys, sources, bytes, options, cancelled)));
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

  BatchResult put(Registrar namespace, Keys keys, List<MemorySegment> sources, Options options) {
    return put(namespace, keys, sources, null, options);
  }

  BatchResult put(
      Registrar namespace,
      Keys keys,
      List<MemorySegment> sources,
      @Nullable List<byte[]> bytes,
      Options options) {
    CopyArguments.checkSources(namespace.properties(), keys, sources, bytes);
    return put(namespace, keys, sources, bytes, options, null);
  }

  private BatchResult put(
      Registrar namespace,
      Keys keys,
      List<MemorySegment> sources,
      @Nullable List<byte[]> bytes,
      Options options,
      @Nullable AtomicBoolean cancelled) {
    long deadlineNs = submitter.deadlineNs(options);
    int chunk = Math.clamp(PUT_BYTES / namespace.properties().blockBytes(), 1, Protocol.KEYS_MAX);
    int count = keys.count();
    Outcome outcome = new Outcome(count);
    ArrayDeque<Commit> commits = new ArrayDeque<>();
    // The reservations that nobody waits for yet.
    Operation ahead =
        startReserve(namespace, keys, 0, Math.min(count, chunk), true, options, deadlineNs);
    int from = 0;
    BitSet unfit = new BitSet();
    try {
      while (ahead != null) {
        Operation reserved = ahead;
        int next = from + reserved.count();
        boolean more = next < count && (cancelled == null || !cancelled.get());
        ahead =
            more
                ? startReserve(
                    namespace, keys, next, Math.min(count, next + chunk), true, options, deadlineNs)
                : null;
        commits.add(
            fill(
                namespace,
                keys,
                from,
                reserved,
                sources,
                bytes,
                unfit,
                !more,
                options,
                deadlineNs));
        if (commits.size() > COMMITS_AHEAD) {
          commits.remove().note(submitter, outcome);
        }
        from = next;
      }
      outcome.rest(from, Status.CANCELLED);
    } finally {
      if (ahead != null) {
        // Only after misuse: the reservations ahead are waited for, and given back.
        submitter
            .await(ahead, answered -> new LocalReservations(operations, answered, options))
            .close();
      }
      for (Commit commit : commits) {
        commit.note(submitter, outcome);
      }
    }
    for (int begin = unfit.nextSetBit(0); begin >= 0; begin = unfit.nextSetBit(from)) {
      // Blocks that do not fit are put raw.
      from = Math.min(unfit.nextClearBit(begin), begin + chunk);
      Operation reserved = startReserve(namespace, keys, begin, from, false, options, deadlineNs);
      fill(namespace, keys, begin, reserved, sources, bytes, unfit, true, options, deadlineNs)
          .note(submitter, outcome);
    }
    return outcome.result();
  }

  /**
   * Fills what was reserved, and sends annotations and the commit.
   *
   * @param unfit gets the blocks that do not fit their encoded slots
   */
  private Commit fill(
      Registrar namespace,
      Keys keys,
      int from,
      Operation reserved,
      List<MemorySegment> sources,
      @Nullable List<byte[]> bytes,
      BitSet unfit,
      boolean last,
      Options options,
      long deadlineNs) {
    int to = from + reserved.count();
    LocalReservations reservations =
        submitter.await(reserved, answered -> new LocalReservations(operations, answered, options));
    List<Operation> annotating =
        bytes == null
            ? List.of()
            : annotate(
                namespace,
                keys.slice(from, to),
                bytes.subList(from, to),
                reservations,
                options,
                deadlineNs);
    BlockEncoding encoding = namespace.properties().encoding();
    return copyIn(reservations, sources, from, encoding, annotating, unfit, last, deadlineNs);
  }

  private Operation startReserve(
      Registrar namespace,
      Keys keys,
      int from,
      int to,
      boolean encoded,
      Options options,
      long deadlineNs) {
    return operations.reserveForCopies(
        namespace,
        keys.slice(from, to),
        encoded,
        CopyArguments.at(options, keys, from),
        deadlineNs);
  }

  /**
   * Fills what was reserved, and sends the commit.
   *
   * @param annotating the annotations of these blocks that are under way
   * @param last whether no sub-batch follows, so that a thread will wait for this commit
   */
  private Commit copyIn(
      LocalReservations reservations,
      List<MemorySegment> sources,
      int from,
      @Nullable BlockEncoding encoding,
      List<Operation> annotating,
      BitSet unfit,
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
          if (encoding != null && reservations.isEncoded(i)) {
            if (little) {
              reservations.announceCommit();
            }
            long checksum = CODER.encode(encoding, source, slot);
            checksums[i] = (int) checksum;
            if (checksum == BlockCoder.NONE) {
              reservations.giveBack(i);
              unfit.set(from + i);
            }
            continue;
          }
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
      annotating.forEach(one -> submitter.await(one, Answers::value));
      reservations.close();
      throw e;
    }
  }

  /** A sub-batch whose commit is on its way. */
  private record Commit(
      LocalReservations reservations, Operation commit, List<Operation> annotating, int from) {
    void note(Submitter submitter, Outcome outcome) {
      for (Operation one : annotating) {
        // Blocks without their annotation are blocks all the same.
        var _ = submitter.await(one, Answers::value);
      }
      BatchResult result = reservations.await(commit);
      outcome.note(result.status(), result.detail());
      for (int i = 0; i < result.blocks().count(); i++) {
        outcome.set(from + i, result.blocks().status(i), result.blocks().tier(i));
      }
    }
  }

  /** Annotates before the commit: blocks have their annotations when they become visible. */
  private List<Operation> annotate(
      Registrar namespace,
      Keys keys,
      List<byte[]> bytes,
      LocalReservations reservations,
      Options options,
      long deadlineNs) {
    Session session = reservations.session();
    return session == null
        ? List.of()
        : annotations.begin(
            session, namespace, keys, bytes, reservations::isReserved, options, deadlineNs);
  }
}
