package io.kvtier.client;

import io.kvtier.protocol.LoadReport;
import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * The operations, each of which returns when it is done, at the latest a little after its deadline.
 * The calling thread itself submits, spins for some microseconds, and sleeps until the daemon wakes
 * it: no other thread stands between. Thread-safe.
 *
 * <p>As long as there has been no session, an operation waits for an attempt to connect that is
 * under way, within its own deadline; in the pauses between attempts, and later, it answers {@link
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
   * An operator's command, for who has the role admin.
   *
   * @param command words such as {@code policy host s3fifo}
   * @return what was done, or why it was not
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
   * As the other, with bytes that are kept with the blocks, at most 2048 of each: {@link
   * BlockTokens} makes what the daemon's events need.
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
   * Has bytes kept with blocks that are here or on their way, for blocks that were reserved. A
   * block that has an annotation keeps it.
   *
   * @param annotations one for each key; an empty one is none
   * @return how many blocks have got one
   */
  ValueResult annotate(Namespace namespace, Keys keys, List<byte[]> annotations, Options options);

  /** See {@link Namespace#prefetch}. */
  BatchResult prefetch(Namespace namespace, Keys keys, Options options);

  /** See {@link Namespace#pin}. */
  BatchResult pin(Namespace namespace, Keys keys, Options options);

  /** See {@link Namespace#unpin}. */
  BatchResult unpin(Namespace namespace, Keys keys, Options options);

  /** See {@link Namespace#delete}. */
  BatchResult delete(Namespace namespace, Keys keys, Options options);

  /** See {@link Namespace#clear}. */
  ValueResult clear(Namespace namespace, Options options);

  /** See {@link Namespace#flush}. */
  ValueResult flush(Namespace namespace, Options options);

  /** See {@link Namespace#reportLoads}. */
  ValueResult reportLoads(Namespace namespace, LoadReport report, Options options);

  /**
   * Completes when every block accepted before, of whatever namespace and tenant, is in the tier
   * below memory, if its tenant has one; for who has the role admin and is of no tenant.
   */
  ValueResult flushAll(Options options);

  /** A holder of one lease at a time, for the shortest way to a block. */
  BlockLease newLease();

  /**
   * Many single-block acquires in flight at once.
   *
   * @param capacity the most in flight
   */
  LeasePipeline newPipeline(Namespace namespace, int capacity, Options options);
}
