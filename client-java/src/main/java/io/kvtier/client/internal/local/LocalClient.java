package io.kvtier.client.internal.local;

import io.kvtier.client.BlockingClient;
import io.kvtier.client.DaemonInfo;
import io.kvtier.client.KvtierException;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.client.PingResult;
import io.kvtier.client.TextResult;
import io.kvtier.client.internal.session.Connecting;
import io.kvtier.client.internal.session.Connector;
import io.kvtier.client.internal.session.Receiver;
import io.kvtier.client.internal.session.Session;
import io.kvtier.client.internal.shared.NamespaceProperties;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** The parts of a client of the daemon on this machine. Thread-safe. */
public final class LocalClient implements AutoCloseable {
  private static final int COPY_THREADS_MAX = 4;

  private final Connecting to;
  private final long timeoutNs;
  private final Connector connector;
  private final Receiver receiver;
  private final Submitter submitter;
  private final Operations operations;
  private final Regions regions;
  private final Transfers transfers;
  private final BlockingClient blocking;
  private final @Nullable ThreadPoolExecutor ownCopies;

  /**
   * A client that does not connect yet.
   *
   * @param timeoutNs the timeout of operations that bring none
   * @param spinNs how long a waiting thread spins before it sleeps
   * @param copies runs asynchronous copies; null: threads of this client
   */
  public LocalClient(Connecting to, long timeoutNs, long spinNs, @Nullable Executor copies) {
    this.to = to;
    this.timeoutNs = timeoutNs;
    Receiver[] later = new Receiver[1];
    this.connector =
        new Connector(
            to, spinNs, batch -> later[0].answered(batch), () -> later[0].wakeIfRunning());
    this.receiver = new Receiver(connector);
    later[0] = receiver;
    this.submitter = new Submitter(timeoutNs, connector, receiver);
    this.operations = new Operations(submitter);
    this.regions = new Regions(operations);
    Annotations annotations = new Annotations(submitter);
    this.ownCopies = copies == null ? newCopies() : null;
    Executor copyOn = ownCopies != null ? ownCopies : copies;
    this.transfers =
        new Transfers(operations, annotations, copyOn == null ? Runnable::run : copyOn);
    this.blocking = new LocalBlockingClient(operations, transfers, annotations);
  }

  private static ThreadPoolExecutor newCopies() {
    int threads = Math.clamp(Runtime.getRuntime().availableProcessors() / 2, 1, COPY_THREADS_MAX);
    ThreadPoolExecutor executor =
        new ThreadPoolExecutor(
            threads,
            threads,
            10,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(),
            Thread.ofPlatform().daemon().name("kvtier-copy-", 0).factory());
    executor.allowCoreThreadTimeOut(true);
    return executor;
  }

  /** Begins to connect, and waits for the outcome of the first attempt. */
  public void start(long patienceNs) {
    connector.start();
    var _ = connector.awaitAttempt(patienceNs, false);
  }

  public Path socket() {
    return to.socket();
  }

  public boolean isConnected() {
    return connector.current() != null;
  }

  /** Waits for a session, for the client's timeout at most. */
  public DaemonInfo connect() {
    Session session = connector.awaitAttempt(timeoutNs, true);
    if (session == null) {
      Connector.Problem problem = connector.problem();
      throw new KvtierException(problem.status(), problem.text());
    }
    return session.wires().info();
  }

  /** The daemon at the other end; null while there is none. */
  public @Nullable DaemonInfo daemon() {
    Session session = connector.current();
    return session == null ? null : session.wires().info();
  }

  /** CLOCK_MONOTONIC ns of the daemon's last round; 0 while there is no daemon. */
  public long heartbeatNs() {
    Session session = connector.current();
    return session == null ? 0 : session.heartbeatNs();
  }

  /** A namespace, registered now and in every later session. */
  public Namespace namespace(String name, long blockBytes, Map<String, String> properties) {
    Registrar registrar =
        new Registrar(submitter, NamespaceProperties.of(name, blockBytes, properties));
    connector.add(registrar);
    Session session = connector.session(System.nanoTime() + timeoutNs);
    if (session != null) {
      Registrar.Registration registration = registrar.in(session);
      if (registration.status() != Status.OK && session.isAlive()) {
        connector.remove(registrar);
        throw new KvtierException(
            registration.status(), aboutNamespace(name, registration.detail()));
      }
    }
    return new LocalNamespace(operations, transfers, regions, registrar);
  }

  /** The daemon's own words name the namespace already where it is known otherwise. */
  private static String aboutNamespace(String name, String detail) {
    String named = "namespace '" + name + "'";
    return detail.startsWith(named) ? detail : named + ": " + detail;
  }

  public BlockingClient blocking() {
    return blocking;
  }

  public CompletableFuture<PingResult> ping() {
    long start = System.nanoTime();
    return submitter.async(
        listener -> operations.plain(Verb.PING, null, Options.DEFAULT, listener),
        answered -> Answers.ping(answered, start));
  }

  public CompletableFuture<TextResult> stats() {
    return submitter.async(
        listener -> operations.plain(Verb.STATS, null, Options.DEFAULT, listener), Answers::text);
  }

  /** The daemon's counters by name; empty while there is no daemon. */
  public Map<String, Long> counters() {
    Session session = connector.current();
    return session == null ? Map.of() : session.counters();
  }

  @Override
  public void close() {
    connector.close();
    receiver.close();
    ThreadPoolExecutor copies = ownCopies;
    if (copies != null) {
      copies.shutdown();
    }
  }
}
