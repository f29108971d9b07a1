package io.kvtier.client;

import io.kvtier.protocol.LoadReport;
import io.kvtier.protocol.Status;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/**
 * One cache layout, and the operations on its blocks. Outcomes are values. {@link KvtierClient}
 * makes namespaces of a daemon on this machine, {@link RemoteClient} makes namespaces over gRPC.
 */
public interface CacheNamespace {
  String name();

  /** The bytes of each block. */
  long blockBytes();

  /** All that makes bytes interchangeable, with the name. */
  Map<String, String> properties();

  /** OK, or why the daemon does not serve this namespace. */
  Status status();

  /** The reason for {@link #status}, in words. */
  String detail();

  /** Which blocks are there, and where. Changes nothing and renews nothing. */
  CompletableFuture<LookupResult> lookup(Keys keys, Options options);

  /**
   * Copies blocks into memory of the caller, which must stay alive and untouched until the future
   * is done.
   *
   * @param destinations one for each key, of at least a block's bytes
   */
  CompletableFuture<BatchResult> get(Keys keys, List<MemorySegment> destinations, Options options);

  /**
   * Stores copies of blocks, which must stay alive and unchanged until the future is done.
   *
   * @param sources one for each key, of exactly a block's bytes
   */
  CompletableFuture<BatchResult> put(Keys keys, List<MemorySegment> sources, Options options);

  /**
   * Stores copies of blocks, each with an annotation of at most 2048 bytes.
   *
   * @param annotations one for each key; an empty one is none
   */
  CompletableFuture<BatchResult> put(
      Keys keys, List<MemorySegment> sources, List<byte[]> annotations, Options options);

  /** Starts to bring blocks into host memory; completes at once. */
  CompletableFuture<BatchResult> prefetch(Keys keys, Options options);

  /** Holds blocks against eviction until they are unpinned or the client ends. Counted. */
  CompletableFuture<BatchResult> pin(Keys keys, Options options);

  CompletableFuture<BatchResult> unpin(Keys keys, Options options);

  /**
   * Keeps blocks on the daemon's node until a lifetime has ended, also after the end of this
   * client, but not after the end of the daemon. A block that is already kept for longer stays so.
   *
   * <p>A block is OK, PENDING (it is still being written, and kept as soon as it is there) or MISS.
   * If the blocks do not all fit into the quota of the tenant, the result is OVER_QUOTA, with the
   * numbers in its detail: of each 2048 blocks of the batch, either all are kept or none.
   *
   * @param lifetime at most the daemon's {@code limits.retention_max}; 0: the blocks are not kept
   *     any more
   * @throws IllegalArgumentException for a lifetime that is negative
   */
  CompletableFuture<BatchResult> retain(Keys keys, Duration lifetime, Options options);

  /** Deletes blocks from all tiers of the daemon's node, and the objects that nodes share. */
  CompletableFuture<BatchResult> delete(Keys keys, Options options);

  /** Deletes all blocks, as {@link #delete} does; the value is how many. */
  CompletableFuture<ValueResult> clear(Options options);

  /**
   * Completes when every block accepted before is in the tier below memory, if there is one; the
   * value is how many were written.
   */
  CompletableFuture<ValueResult> flush(Options options);

  /**
   * Reports what loads of an engine have saved since its last report, for the daemon's figures. The
   * daemon refuses a report of more blocks than gets of this namespace have found.
   *
   * @throws IllegalArgumentException for what no engine can have measured
   */
  CompletableFuture<ValueResult> reportLoads(LoadReport report, Options options);

  /** Forgets the namespace in this client; its blocks stay. */
  CompletableFuture<ValueResult> unregister();
}
