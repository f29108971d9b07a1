package io.kvtier.client;

import io.kvtier.protocol.LoadReport;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;

/**
 * Operations that return when they are done, at the latest a little after their deadlines. The
 * calling thread itself submits, spins for some microseconds, and sleeps until the daemon wakes it.
 * Thread-safe.
 *
 * <p>Before the first session, an operation waits for an attempt to connect that is under way,
 * within its own deadline. In the pauses between attempts, and later, it answers {@link
 * io.kvtier.protocol.Status#UNAVAILABLE} at once.
 */
public interface BlockingClient {
  /** See {@link KvtierClient#ping}. */
  PingResult ping(Options options);

  default PingResult ping() {
    return ping(Options.DEFAULT);
  }

  /** The daemon's state in JSON. */
  TextResult stats(Options options);

  default TextResult stats() {
    return stats(Options.DEFAULT);
  }

  /**
   * Carries out an operator's command, for callers with the role admin.
   *
   * @param command words such as {@code policy host s3fifo}
   * @return what was done, or why nothing was done
   */
  TextResult admin(String command);

  /** See {@link Namespace#lookup}. */
  LookupResult lookup(Namespace namespace, Keys keys, Options options);

  default LookupResult lookup(Namespace namespace, Keys keys) {
    return lookup(namespace, keys, Options.DEFAULT);
  }

  /** See {@link Namespace#acquire}. */
  Leases acquire(Namespace namespace, Keys keys, Options options);

  default Leases acquire(Namespace namespace, Keys keys) {
    return acquire(namespace, keys, Options.DEFAULT);
  }

  /** See {@link Namespace#reserve}. */
  Reservations reserve(Namespace namespace, Keys keys, Options options);

  default Reservations reserve(Namespace namespace, Keys keys) {
    return reserve(namespace, keys, Options.DEFAULT);
  }

  /** See {@link Namespace#get}. */
  BatchResult get(
      Namespace namespace, Keys keys, List<MemorySegment> destinations, Options options);

  default BatchResult get(Namespace namespace, Keys keys, List<MemorySegment> destinations) {
    return get(namespace, keys, destinations, Options.DEFAULT);
  }

  /** See {@link Namespace#put}. */
  BatchResult put(Namespace namespace, Keys keys, List<MemorySegment> sources, Options options);

  default BatchResult put(Namespace namespace, Keys keys, List<MemorySegment> sources) {
    return put(namespace, keys, sources, Options.DEFAULT);
  }

  /**
   * Stores copies of blocks, each with an annotation of at most 2048 bytes. {@link BlockTokens}
   * makes the annotations that the daemon's events need.
   *
   * @param annotations one for each key; an empty one is none
   */
  BatchResult put(
      Namespace namespace,
      Keys keys,
      List<MemorySegment> sources,
      List<byte[]> annotations,
      Options options);

  /**
   * Annotates blocks that are stored or reserved. A block that has an annotation keeps it.
   *
   * @param annotations one for each key; an empty one is none
   * @return how many blocks got an annotation
   */
  ValueResult annotate(Namespace namespace, Keys keys, List<byte[]> annotations, Options options);

  /** See {@link Namespace#prefetch}. */
  BatchResult prefetch(Namespace namespace, Keys keys, Options options);

  /** See {@link Namespace#pin}. */
  BatchResult pin(Namespace namespace, Keys keys, Options options);

  /** See {@link Namespace#unpin}. */
  BatchResult unpin(Namespace namespace, Keys keys, Options options);

  /** See {@link Namespace#retain}. */
  BatchResult retain(Namespace namespace, Keys keys, Duration lifetime, Options options);

  /** See {@link Namespace#delete}. */
  BatchResult delete(Namespace namespace, Keys keys, Options options);

  /** See {@link Namespace#clear}. */
  ValueResult clear(Namespace namespace, Options options);

  /** See {@link Namespace#flush}. */
  ValueResult flush(Namespace namespace, Options options);

  /** See {@link Namespace#reportLoads}. */
  ValueResult reportLoads(Namespace namespace, LoadReport report, Options options);

  /**
   * Completes when every block accepted before, of all namespaces and tenants, is in the tier below
   * memory, if its tenant has one. For callers with the role admin and without a tenant.
   */
  ValueResult flushAll(Options options);

  /** Makes a holder of one lease at a time: the fastest access to a block. */
  BlockLease newLease();

  /**
   * Many single-block acquires in flight at once.
   *
   * @param capacity the most in flight
   */
  LeasePipeline newPipeline(Namespace namespace, int capacity, Options options);
}
