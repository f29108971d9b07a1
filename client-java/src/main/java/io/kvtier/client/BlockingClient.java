package io.kvtier.client;

import io.kvtier.protocol.LoadReport;
import io.kvtier.protocol.Verb;
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
public final class BlockingClient {
  private final Operations operations;
  private final Transfers transfers;

  BlockingClient(Operations operations, Transfers transfers) {
    this.operations = operations;
    this.transfers = transfers;
  }

  /** See {@link KvtierClient#ping}. */
  public PingResult ping(Options options) {
    long start = System.nanoTime();
    return operations.await(
        operations.plain(Verb.PING, null, options, null),
        batch -> operations.pingResult(batch, start));
  }

  public PingResult ping() {
    return ping(Options.DEFAULT);
  }

  /** The daemon's state in JSON. */
  public TextResult stats(Options options) {
    return operations.await(
        operations.plain(Verb.STATS, null, options, null), Operations::textResult);
  }

  public TextResult stats() {
    return stats(Options.DEFAULT);
  }

  /**
   * An operator's command, for who has the role admin.
   *
   * @param command words such as {@code policy host s3fifo}
   * @return what was done, or why it was not
   */
  public TextResult admin(String command) {
    return operations.await(operations.text(Verb.ADMIN, command), Operations::textResult);
  }

  /** See {@link Namespace#lookup}. */
  public LookupResult lookup(Namespace namespace, Keys keys, Options options) {
    return operations.await(start(Verb.LOOKUP, namespace, keys, options), Operations::lookupResult);
  }

  public LookupResult lookup(Namespace namespace, Keys keys) {
    return lookup(namespace, keys, Options.DEFAULT);
  }

  /** See {@link Namespace#acquire}. */
  public Leases acquire(Namespace namespace, Keys keys, Options options) {
    return operations.await(
        start(Verb.ACQUIRE, namespace, keys, options),
        batch -> Leases.read(operations, batch, options));
  }

  public Leases acquire(Namespace namespace, Keys keys) {
    return acquire(namespace, keys, Options.DEFAULT);
  }

  /** See {@link Namespace#reserve}. */
  public Reservations reserve(Namespace namespace, Keys keys, Options options) {
    return operations.await(
        start(Verb.RESERVE, namespace, keys, options),
        batch -> Reservations.read(operations, batch, options));
  }

  public Reservations reserve(Namespace namespace, Keys keys) {
    return reserve(namespace, keys, Options.DEFAULT);
  }

  /** See {@link Namespace#get}. */
  public BatchResult get(
      Namespace namespace, Keys keys, List<MemorySegment> destinations, Options options) {
    return transfers.get(namespace, keys, destinations, options);
  }

  public BatchResult get(Namespace namespace, Keys keys, List<MemorySegment> destinations) {
    return get(namespace, keys, destinations, Options.DEFAULT);
  }

  /** See {@link Namespace#put}. */
  public BatchResult put(
      Namespace namespace, Keys keys, List<MemorySegment> sources, Options options) {
    return transfers.put(namespace, keys, sources, options);
  }

  public BatchResult put(Namespace namespace, Keys keys, List<MemorySegment> sources) {
    return put(namespace, keys, sources, Options.DEFAULT);
  }

  /**
   * As the other, with bytes that are kept with the blocks, at most 2048 of each: {@link
   * BlockTokens} makes what the daemon's events need.
   *
   * @param annotations one for each key; an empty one is none
   */
  public BatchResult put(
      Namespace namespace,
      Keys keys,
      List<MemorySegment> sources,
      List<byte[]> annotations,
      Options options) {
    return transfers.put(namespace, keys, sources, annotations, options);
  }

  /**
   * Has bytes kept with blocks that are here or on their way, for blocks that were reserved. A
   * block that has an annotation keeps it.
   *
   * @param annotations one for each key; an empty one is none
   * @return how many blocks have got one
   */
  public ValueResult annotate(
      Namespace namespace, Keys keys, List<byte[]> annotations, Options options) {
    return operations.annotate(namespace, keys, annotations, options);
  }

  /** See {@link Namespace#prefetch}. */
  public BatchResult prefetch(Namespace namespace, Keys keys, Options options) {
    return blocks(Verb.PREFETCH, namespace, keys, options);
  }

  /** See {@link Namespace#pin}. */
  public BatchResult pin(Namespace namespace, Keys keys, Options options) {
    return blocks(Verb.PIN, namespace, keys, options);
  }

  /** See {@link Namespace#unpin}. */
  public BatchResult unpin(Namespace namespace, Keys keys, Options options) {
    return blocks(Verb.UNPIN, namespace, keys, options);
  }

  /** See {@link Namespace#delete}. */
  public BatchResult delete(Namespace namespace, Keys keys, Options options) {
    return blocks(Verb.DELETE, namespace, keys, options);
  }

  private BatchResult blocks(Verb verb, Namespace namespace, Keys keys, Options options) {
    return operations.await(start(verb, namespace, keys, options), Operations::batchResult);
  }

  /** See {@link Namespace#clear}. */
  public ValueResult clear(Namespace namespace, Options options) {
    return operations.await(
        operations.plain(Verb.CLEAR, namespace, options, null), Operations::valueResult);
  }

  /** See {@link Namespace#flush}. */
  public ValueResult flush(Namespace namespace, Options options) {
    return operations.await(
        operations.plain(Verb.FLUSH, namespace, options, null), Operations::valueResult);
  }

  /** See {@link Namespace#reportLoads}. */
  public ValueResult reportLoads(Namespace namespace, LoadReport report, Options options) {
    return operations.await(
        operations.reportLoads(namespace, report, options, null), Operations::valueResult);
  }

  /**
   * Completes when every block accepted before, of whatever namespace and tenant, is in the tier
   * below memory, if its tenant has one; for who has the role admin and is of no tenant.
   */
  public ValueResult flushAll(Options options) {
    return operations.await(operations.flushAll(options, null), Operations::valueResult);
  }

  /** A holder of one lease at a time, for the shortest way to a block. */
  public BlockLease newLease() {
    return new BlockLease(operations);
  }

  /**
   * Many single-block acquires in flight at once.
   *
   * @param capacity the most in flight
   */
  public LeasePipeline newPipeline(Namespace namespace, int capacity, Options options) {
    return new LeasePipeline(operations, namespace, capacity, options);
  }

  private Batch start(Verb verb, Namespace namespace, Keys keys, Options options) {
    return operations.keys(verb, namespace, keys, options, operations.deadlineNs(options), null);
  }
}
