package io.kvtier.client;

import io.kvtier.protocol.LoadReport;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * One cache layout, and the asynchronous operations on its blocks. Thread-safe.
 *
 * <p>Futures complete on the client's receiver thread: dependent stages that take long, or that
 * wait for another future of this client, belong on an executor of their own. Outcomes are values;
 * no future completes exceptionally but for misuse, such as memory that was closed meanwhile.
 * Cancelling a future cancels the operation.
 */
public final class Namespace implements CacheNamespace {
  /** How a namespace stands in one session. */
  record Registration(Session session, Status status, String detail, int id) {}

  private final Operations operations;
  private final Transfers transfers;
  private final NamespaceProperties properties;
  private volatile @Nullable Registration registration;
  private volatile boolean unregistered;

  Namespace(Operations operations, Transfers transfers, NamespaceProperties properties) {
    this.operations = operations;
    this.transfers = transfers;
    this.properties = properties;
  }

  @Override
  public String name() {
    return properties.name();
  }

  @Override
  public long blockBytes() {
    return properties.blockBytes();
  }

  /** All that makes bytes interchangeable, with the name. */
  @Override
  public Map<String, String> properties() {
    return properties.all();
  }

  /** OK, or why the daemon does not serve this namespace. */
  @Override
  public Status status() {
    Registration known = registration;
    return known == null ? Status.UNAVAILABLE : known.status();
  }

  /** The reason for {@link #status}, in words: the property that differs. */
  @Override
  public String detail() {
    Registration known = registration;
    return known == null ? "" : known.detail();
  }

  /** How the namespace stands in that session; registers it where that was not done. */
  Registration registration(Session session) {
    Registration known = registration;
    return known != null && known.session() == session ? known : register(session);
  }

  /** Registers the namespace, and waits for the answer. */
  synchronized Registration register(Session session) {
    Registration known = registration;
    if (known != null && known.session() == session) {
      return known;
    }
    if (unregistered) {
      return new Registration(
          session, Status.NAMESPACE_UNKNOWN, "the namespace was unregistered", -1);
    }
    Registration made =
        operations
            .register(session, properties.text(), properties.blockBytes())
            .read(batch ->
                new Registration(session, batch.status(), batch.detail(), (int) batch.value()));
    // What may pass is tried again by the next operation.
    if (made.status() == Status.OK
        || made.status() == Status.NAMESPACE_MISMATCH
        || made.status() == Status.INVALID_ARGUMENT) {
      registration = made;
    }
    return made;
  }

  /**
   * Forgets the namespace in this client; its blocks stay. Later operations answer
   * NAMESPACE_UNKNOWN.
   */
  @Override
  public CompletableFuture<ValueResult> unregister() {
    CompletableFuture<ValueResult> done =
        operations.async(
            listener -> operations.plain(Verb.UNREGISTER, this, Options.DEFAULT, listener),
            Operations::valueResult);
    synchronized (this) {
      unregistered = true;
      registration = null;
    }
    operations.connector().remove(this);
    return done;
  }

  /**
   * Has the daemon open device memory of this process, and waits for that: the first time on a GPU
   * it takes a second or so.
   */
  public DeviceRegion.Result registerRegion(RegionSpec spec) {
    return operations.region(this, spec);
  }

  /** Which blocks are there, and where. Changes nothing and renews nothing. */
  @Override
  public CompletableFuture<LookupResult> lookup(Keys keys, Options options) {
    return operations.async(
        listener -> start(Verb.LOOKUP, keys, options, listener), Operations::lookupResult);
  }

  public CompletableFuture<LookupResult> lookup(Keys keys) {
    return lookup(keys, Options.DEFAULT);
  }

  /**
   * Leases blocks for reading in place; brings up first what is in a lower tier. Close what you
   * get.
   */
  public CompletableFuture<Leases> acquire(Keys keys, Options options) {
    return operations.async(
        listener -> start(Verb.ACQUIRE, keys, options, listener),
        batch -> Leases.read(operations, batch, options));
  }

  public CompletableFuture<Leases> acquire(Keys keys) {
    return acquire(keys, Options.DEFAULT);
  }

  /** Takes slots to write blocks into. Commit or close what you get. */
  public CompletableFuture<Reservations> reserve(Keys keys, Options options) {
    return operations.async(
        listener -> start(Verb.RESERVE, keys, options, listener),
        batch -> Reservations.read(operations, batch, options));
  }

  public CompletableFuture<Reservations> reserve(Keys keys) {
    return reserve(keys, Options.DEFAULT);
  }

  /**
   * Copies blocks into memory of the caller, which must stay alive and untouched until the future
   * is done.
   *
   * @param destinations one for each key, of at least a block's bytes; native memory or byte arrays
   */
  @Override
  public CompletableFuture<BatchResult> get(
      Keys keys, List<MemorySegment> destinations, Options options) {
    return transfers.getAsync(this, keys, destinations, options);
  }

  public CompletableFuture<BatchResult> get(Keys keys, List<MemorySegment> destinations) {
    return get(keys, destinations, Options.DEFAULT);
  }

  /**
   * Stores copies of blocks, which must stay alive and unchanged until the future is done.
   *
   * @param sources one for each key, of exactly a block's bytes
   */
  @Override
  public CompletableFuture<BatchResult> put(
      Keys keys, List<MemorySegment> sources, Options options) {
    return transfers.putAsync(this, keys, sources, options);
  }

  public CompletableFuture<BatchResult> put(Keys keys, List<MemorySegment> sources) {
    return put(keys, sources, Options.DEFAULT);
  }

  /**
   * Stores copies of blocks, each with an annotation of at most 2048 bytes. {@link BlockTokens}
   * makes the annotations that the daemon's events need.
   *
   * @param annotations one for each key; an empty one is none
   */
  @Override
  public CompletableFuture<BatchResult> put(
      Keys keys, List<MemorySegment> sources, List<byte[]> annotations, Options options) {
    return transfers.putAsync(this, keys, sources, annotations, options);
  }

  /** Starts to bring blocks into host memory; completes at once. */
  @Override
  public CompletableFuture<BatchResult> prefetch(Keys keys, Options options) {
    return blocks(Verb.PREFETCH, keys, options);
  }

  /** Holds blocks against eviction until they are unpinned or the session ends. Counted. */
  @Override
  public CompletableFuture<BatchResult> pin(Keys keys, Options options) {
    return blocks(Verb.PIN, keys, options);
  }

  @Override
  public CompletableFuture<BatchResult> unpin(Keys keys, Options options) {
    return blocks(Verb.UNPIN, keys, options);
  }

  /**
   * Deletes blocks from all tiers of this node, and the objects that nodes share. What is leased
   * stays readable until it is released.
   */
  @Override
  public CompletableFuture<BatchResult> delete(Keys keys, Options options) {
    return blocks(Verb.DELETE, keys, options);
  }

  private CompletableFuture<BatchResult> blocks(Verb verb, Keys keys, Options options) {
    return operations.async(
        listener -> start(verb, keys, options, listener), Operations::batchResult);
  }

  /** Deletes all blocks, as {@link #delete} does; the value is how many. */
  @Override
  public CompletableFuture<ValueResult> clear(Options options) {
    return operations.async(
        listener -> operations.plain(Verb.CLEAR, this, options, listener), Operations::valueResult);
  }

  /**
   * Completes when every block accepted before is in the tier below memory, if there is one; the
   * value is how many were written.
   */
  @Override
  public CompletableFuture<ValueResult> flush(Options options) {
    return operations.async(
        listener -> operations.plain(Verb.FLUSH, this, options, listener), Operations::valueResult);
  }

  @Override
  public CompletableFuture<ValueResult> reportLoads(LoadReport report, Options options) {
    return operations.async(
        listener -> operations.reportLoads(this, report, options, listener),
        Operations::valueResult);
  }

  private Batch start(Verb verb, Keys keys, Options options, Consumer<Batch> listener) {
    return operations.keys(verb, this, keys, options, operations.deadlineNs(options), listener);
  }

  @Override
  public String toString() {
    return properties.toString();
  }
}
