package io.kvtier.client.internal.local;

import io.kvtier.client.BatchResult;
import io.kvtier.client.DeviceRegion;
import io.kvtier.client.Keys;
import io.kvtier.client.Leases;
import io.kvtier.client.LookupResult;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.client.RegionSpec;
import io.kvtier.client.Reservations;
import io.kvtier.client.ValueResult;
import io.kvtier.client.internal.shared.NamespaceProperties;
import io.kvtier.protocol.LoadReport;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/** One cache layout of the daemon of this machine. Thread-safe. */
final class LocalNamespace implements Namespace {
  private final Submitter submitter;
  private final Operations operations;
  private final Transfers transfers;
  private final Regions regions;
  private final Registrar registrar;
  private final NamespaceProperties properties;

  LocalNamespace(Operations operations, Transfers transfers, Regions regions, Registrar registrar) {
    this.submitter = operations.submitter();
    this.operations = operations;
    this.transfers = transfers;
    this.regions = regions;
    this.registrar = registrar;
    this.properties = registrar.properties();
  }

  /** The registrar of a namespace that a user gives. */
  static Registrar registrar(Namespace namespace) {
    if (Objects.requireNonNull(namespace, "the namespace is null")
        instanceof LocalNamespace local) {
      return local.registrar;
    }
    throw new IllegalArgumentException(
        "the namespace is a "
            + namespace.getClass().getName()
            + "; expected one that KvtierClient.namespace made");
  }

  @Override
  public String name() {
    return properties.name();
  }

  @Override
  public long blockBytes() {
    return properties.blockBytes();
  }

  @Override
  public Map<String, String> properties() {
    return properties.all();
  }

  @Override
  public Status status() {
    Registrar.Registration known = registrar.last();
    return known == null ? Status.UNAVAILABLE : known.status();
  }

  @Override
  public String detail() {
    Registrar.Registration known = registrar.last();
    return known == null ? "" : known.detail();
  }

  @Override
  public CompletableFuture<ValueResult> unregister() {
    CompletableFuture<ValueResult> done =
        submitter.async(
            listener -> operations.plain(Verb.UNREGISTER, registrar, Options.DEFAULT, listener),
            Answers::value);
    registrar.forget();
    return done;
  }

  @Override
  public DeviceRegion.Result registerRegion(RegionSpec spec) {
    return regions.register(registrar, spec);
  }

  @Override
  public CompletableFuture<LookupResult> lookup(Keys keys, Options options) {
    return submitter.async(
        listener -> start(Verb.LOOKUP, keys, options, listener), Answers::lookup);
  }

  @Override
  public CompletableFuture<Leases> acquire(Keys keys, Options options) {
    return submitter.async(
        listener -> start(Verb.ACQUIRE, keys, options, listener),
        answered -> new LocalLeases(operations, answered, options, properties.encoding()));
  }

  @Override
  public CompletableFuture<Reservations> reserve(Keys keys, Options options) {
    return submitter.async(
        listener -> start(Verb.RESERVE, keys, options, listener),
        answered -> new LocalReservations(operations, answered, options));
  }

  @Override
  public CompletableFuture<BatchResult> get(
      Keys keys, List<MemorySegment> destinations, Options options) {
    return transfers.getAsync(registrar, keys, destinations, options);
  }

  @Override
  public CompletableFuture<BatchResult> put(
      Keys keys, List<MemorySegment> sources, Options options) {
    return transfers.putAsync(registrar, keys, sources, options);
  }

  @Override
  public CompletableFuture<BatchResult> put(
      Keys keys, List<MemorySegment> sources, List<byte[]> annotations, Options options) {
    return transfers.putAsync(registrar, keys, sources, annotations, options);
  }

  @Override
  public CompletableFuture<BatchResult> prefetch(Keys keys, Options options) {
    return blocks(Verb.PREFETCH, keys, options);
  }

  @Override
  public CompletableFuture<BatchResult> pin(Keys keys, Options options) {
    return blocks(Verb.PIN, keys, options);
  }

  @Override
  public CompletableFuture<BatchResult> unpin(Keys keys, Options options) {
    return blocks(Verb.UNPIN, keys, options);
  }

  @Override
  public CompletableFuture<BatchResult> delete(Keys keys, Options options) {
    return blocks(Verb.DELETE, keys, options);
  }

  @Override
  public CompletableFuture<BatchResult> retain(Keys keys, Duration lifetime, Options options) {
    return submitter.async(
        listener -> operations.retain(registrar, keys, lifetime, options, listener),
        Answers::batch);
  }

  private CompletableFuture<BatchResult> blocks(Verb verb, Keys keys, Options options) {
    return submitter.async(listener -> start(verb, keys, options, listener), Answers::batch);
  }

  @Override
  public CompletableFuture<ValueResult> clear(Options options) {
    return submitter.async(
        listener -> operations.plain(Verb.CLEAR, registrar, options, listener), Answers::value);
  }

  @Override
  public CompletableFuture<ValueResult> flush(Options options) {
    return submitter.async(
        listener -> operations.plain(Verb.FLUSH, registrar, options, listener), Answers::value);
  }

  @Override
  public CompletableFuture<ValueResult> reportLoads(LoadReport report, Options options) {
    return submitter.async(
        listener -> operations.reportLoads(registrar, report, options, listener), Answers::value);
  }

  private Operation start(Verb verb, Keys keys, Options options, Consumer<Operation> listener) {
    long deadlineNs = submitter.deadlineNs(options);
    return operations.keys(verb, registrar, keys, options, deadlineNs, listener);
  }

  @Override
  public String toString() {
    return properties.toString();
  }
}
