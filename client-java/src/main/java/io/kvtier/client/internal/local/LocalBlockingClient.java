package io.kvtier.client.internal.local;

import io.kvtier.client.BatchResult;
import io.kvtier.client.BlockLease;
import io.kvtier.client.BlockingClient;
import io.kvtier.client.Keys;
import io.kvtier.client.LeasePipeline;
import io.kvtier.client.Leases;
import io.kvtier.client.LookupResult;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.client.PingResult;
import io.kvtier.client.Reservations;
import io.kvtier.client.TextResult;
import io.kvtier.client.ValueResult;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.LoadReport;
import io.kvtier.protocol.Verb;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Operations that the calling thread itself submits and waits for. Thread-safe. */
final class LocalBlockingClient implements BlockingClient {
  private final Submitter submitter;
  private final Operations operations;
  private final Transfers transfers;
  private final Annotations annotations;

  LocalBlockingClient(Operations operations, Transfers transfers, Annotations annotations) {
    this.submitter = operations.submitter();
    this.operations = operations;
    this.transfers = transfers;
    this.annotations = annotations;
  }

  @Override
  public PingResult ping(Options options) {
    long start = System.nanoTime();
    return submitter.await(
        operations.plain(Verb.PING, null, options, null),
        answered -> Answers.ping(answered, start));
  }

  @Override
  public TextResult stats(Options options) {
    return submitter.await(operations.plain(Verb.STATS, null, options, null), Answers::text);
  }

  @Override
  public TextResult admin(String command) {
    return submitter.await(operations.text(Verb.ADMIN, command), Answers::text);
  }

  @Override
  public LookupResult lookup(Namespace namespace, Keys keys, Options options) {
    return submitter.await(start(Verb.LOOKUP, namespace, keys, options), Answers::lookup);
  }

  @Override
  public Leases acquire(Namespace namespace, Keys keys, Options options) {
    return submitter.await(
        start(Verb.ACQUIRE, namespace, keys, options),
        answered -> new LocalLeases(operations, answered, options, encodingOf(namespace)));
  }

  @Override
  public Reservations reserve(Namespace namespace, Keys keys, Options options) {
    return submitter.await(
        start(Verb.RESERVE, namespace, keys, options),
        answered -> new LocalReservations(operations, answered, options));
  }

  @Override
  public BatchResult get(
      Namespace namespace, Keys keys, List<MemorySegment> destinations, Options options) {
    return transfers.get(LocalNamespace.registrar(namespace), keys, destinations, options);
  }

  @Override
  public BatchResult put(
      Namespace namespace, Keys keys, List<MemorySegment> sources, Options options) {
    return transfers.put(LocalNamespace.registrar(namespace), keys, sources, options);
  }

  @Override
  public BatchResult put(
      Namespace namespace,
      Keys keys,
      List<MemorySegment> sources,
      List<byte[]> bytes,
      Options options) {
    return transfers.put(LocalNamespace.registrar(namespace), keys, sources, bytes, options);
  }

  @Override
  public ValueResult annotate(Namespace namespace, Keys keys, List<byte[]> bytes, Options options) {
    return annotations.annotate(LocalNamespace.registrar(namespace), keys, bytes, options);
  }

  @Override
  public BatchResult prefetch(Namespace namespace, Keys keys, Options options) {
    return blocks(Verb.PREFETCH, namespace, keys, options);
  }

  @Override
  public BatchResult pin(Namespace namespace, Keys keys, Options options) {
    return blocks(Verb.PIN, namespace, keys, options);
  }

  @Override
  public BatchResult unpin(Namespace namespace, Keys keys, Options options) {
    return blocks(Verb.UNPIN, namespace, keys, options);
  }

  @Override
  public BatchResult delete(Namespace namespace, Keys keys, Options options) {
    return blocks(Verb.DELETE, namespace, keys, options);
  }

  @Override
  public BatchResult retain(Namespace namespace, Keys keys, Duration lifetime, Options options) {
    Registrar registrar = LocalNamespace.registrar(namespace);
    return submitter.await(
        operations.retain(registrar, keys, lifetime, options, null), Answers::batch);
  }

  private BatchResult blocks(Verb verb, Namespace namespace, Keys keys, Options options) {
    return submitter.await(start(verb, namespace, keys, options), Answers::batch);
  }

  @Override
  public ValueResult clear(Namespace namespace, Options options) {
    return submitter.await(
        operations.plain(Verb.CLEAR, LocalNamespace.registrar(namespace), options, null),
        Answers::value);
  }

  @Override
  public ValueResult flush(Namespace namespace, Options options) {
    return submitter.await(
        operations.plain(Verb.FLUSH, LocalNamespace.registrar(namespace), options, null),
        Answers::value);
  }

  @Override
  public ValueResult reportLoads(Namespace namespace, LoadReport report, Options options) {
    Registrar registrar = LocalNamespace.registrar(namespace);
    return submitter.await(
        operations.reportLoads(registrar, report, options, null), Answers::value);
  }

  @Override
  public ValueResult flushAll(Options options) {
    return submitter.await(operations.flushAll(options), Answers::value);
  }

  @Override
  public BlockLease newLease() {
    return new LocalBlockLease(operations);
  }

  @Override
  public LeasePipeline newPipeline(Namespace namespace, int capacity, Options options) {
    return new LocalLeasePipeline(
        operations, LocalNamespace.registrar(namespace), capacity, options);
  }

  private Operation start(Verb verb, Namespace namespace, Keys keys, Options options) {
    Registrar registrar = LocalNamespace.registrar(namespace);
    return operations.keys(verb, registrar, keys, options, submitter.deadlineNs(options), null);
  }

  private static @Nullable BlockEncoding encodingOf(Namespace namespace) {
    return LocalNamespace.registrar(namespace).properties().encoding();
  }
}
