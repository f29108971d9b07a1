package io.kvtier.client;

import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * One cache layout, and the asynchronous operations on its blocks. Thread-safe.
 *
 * <p>Futures complete on the client's receiver thread: dependent stages that take long, or that
 * wait for another future of this client, belong on an executor of their own. Outcomes are values;
 * no future completes exceptionally but for misuse, such as memory that was closed meanwhile.
 * Cancelling a future cancels the operation.
 *
 * <p>{@link KvtierClient#namespace} makes namespaces. {@link BlockingClient} takes only those.
 */
public interface Namespace extends CacheNamespace {
  /** The reason for {@link #status}, in words: the property that differs. */
  @Override
  String detail();

  /**
   * Forgets the namespace in this client; its blocks stay. Later operations answer
   * NAMESPACE_UNKNOWN.
   */
  @Override
  CompletableFuture<ValueResult> unregister();

  /**
   * Has the daemon open device memory of this process, and waits for that: the first time on a GPU
   * it takes a second or so.
   */
  DeviceRegion.Result registerRegion(RegionSpec spec);

  /** {@link #lookup(Keys, Options)} with the usual options. */
  default CompletableFuture<LookupResult> lookup(Keys keys) {
    return lookup(keys, Options.DEFAULT);
  }

  /**
   * Leases blocks for reading in place. Blocks in a lower tier are brought up first. Close the
   * leases.
   */
  CompletableFuture<Leases> acquire(Keys keys, Options options);

  /** {@link #acquire(Keys, Options)} with the usual options. */
  default CompletableFuture<Leases> acquire(Keys keys) {
    return acquire(keys, Options.DEFAULT);
  }

  /** Reserves slots to write blocks into. Commit or close the reservations. */
  CompletableFuture<Reservations> reserve(Keys keys, Options options);

  /** {@link #reserve(Keys, Options)} with the usual options. */
  default CompletableFuture<Reservations> reserve(Keys keys) {
    return reserve(keys, Options.DEFAULT);
  }

  /**
   * Copies blocks into memory of the caller, which must stay alive and untouched until the future
   * is done.
   *
   * @param destinations one for each key, of at least a block's bytes; native memory or byte arrays
   */
  @Override
  CompletableFuture<BatchResult> get(Keys keys, List<MemorySegment> destinations, Options options);

  /** {@link #get(Keys, List, Options)} with the usual options. */
  default CompletableFuture<BatchResult> get(Keys keys, List<MemorySegment> destinations) {
    return get(keys, destinations, Options.DEFAULT);
  }

  /** {@link #put(Keys, List, Options)} with the usual options. */
  default CompletableFuture<BatchResult> put(Keys keys, List<MemorySegment> sources) {
    return put(keys, sources, Options.DEFAULT);
  }

  /**
   * Stores copies of blocks, each with an annotation of at most 2048 bytes. {@link BlockTokens}
   * makes the annotations that the daemon's events need.
   *
   * @param annotations one for each key; an empty one is none
   */
  @Override
  CompletableFuture<BatchResult> put(
      Keys keys, List<MemorySegment> sources, List<byte[]> annotations, Options options);

  /** Holds blocks against eviction until they are unpinned or the session ends. Counted. */
  @Override
  CompletableFuture<BatchResult> pin(Keys keys, Options options);

  /**
   * Deletes blocks from all tiers of this node, and the objects that nodes share. A leased block
   * stays readable until it is released.
   */
  @Override
  CompletableFuture<BatchResult> delete(Keys keys, Options options);
}
