package io.kvtier.client;

import io.kvtier.client.internal.local.LocalClient;
import io.kvtier.client.internal.session.Connecting;
import io.kvtier.client.internal.session.DaemonUser;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.SocketPaths;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Machine;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;

/**
 * A client of the daemon on this machine. Thread-safe; a process needs one.
 *
 * <p>A daemon that is not there, that ends or that hangs causes no exception: operations answer
 * {@link Status#UNAVAILABLE} or {@link Status#DEADLINE}, and the client connects again by itself,
 * with its namespaces. There are two ways to wait: the futures of {@link Namespace}, and the calls
 * of {@link #blocking}.
 *
 * <p>{@link Builder#build} waits for the first attempt to connect: if a daemon listens, the first
 * operation finds a session. If that attempt fails, operations of {@link BlockingClient} wait for
 * the next one, and futures are answered at once.
 */
public final class KvtierClient implements CacheClient {
  private final LocalClient local;

  private KvtierClient(LocalClient local) {
    this.local = local;
  }

  public static Builder builder() {
    return new Builder();
  }

  /** Where the daemon is looked for. */
  public Path socket() {
    return local.socket();
  }

  @Override
  public String place() {
    return local.socket().toString();
  }

  @Override
  public boolean isConnected() {
    return local.isConnected();
  }

  /**
   * Waits for a session. Nobody needs to call this: it is for those who would rather fail early.
   *
   * @throws KvtierException when the daemon refuses this client, or there is none within the
   *     client's timeout
   */
  public DaemonInfo connect() {
    return local.connect();
  }

  /** The daemon at the other end, or null while there is none. */
  public @Nullable DaemonInfo daemon() {
    return local.daemon();
  }

  /**
   * How long ago the daemon's index last looked round, by its own memory; empty while there is no
   * daemon.
   */
  public Optional<Duration> sinceHeartbeat() {
    long heartbeatNs = local.heartbeatNs();
    return heartbeatNs == 0
        ? Optional.empty()
        : Optional.of(Duration.ofNanos(Math.max(0, System.nanoTime() - heartbeatNs)));
  }

  /**
   * A namespace, registered now and in every later session. Without a daemon it is registered when
   * one appears; the first attempt to connect is waited for, for the client's timeout at most.
   *
   * @param blockBytes the bytes of each block
   * @param properties all that makes bytes interchangeable: model, dtype, block tokens, layout,
   *     parallelism, hash algorithm and seed
   * @throws KvtierException when the daemon knows the namespace with other properties, which it
   *     names
   */
  @Override
  public Namespace namespace(String name, long blockBytes, Map<String, String> properties) {
    return local.namespace(name, blockBytes, properties);
  }

  /** The operations for threads that wait themselves. */
  public BlockingClient blocking() {
    return local.blocking();
  }

  /**
   * Asks the daemon for a sign of life; the detail says in words who answers, or why nobody does.
   */
  @Override
  public CompletableFuture<PingResult> ping() {
    return local.ping();
  }

  /** The daemon's state in JSON. */
  @Override
  public CompletableFuture<TextResult> stats() {
    return local.stats();
  }

  /**
   * The daemon's counters by name, read from its memory: also when it hangs. Empty while there is
   * no daemon.
   */
  @Override
  public Map<String, Long> counters() {
    return local.counters();
  }

  /**
   * Answers everything in flight with UNAVAILABLE and ends the session; the daemon hears of it when
   * no slot is being written any more.
   */
  @Override
  public void close() {
    local.close();
  }

  @Override
  public String toString() {
    return "client of " + local.socket() + (isConnected() ? "" : ", not connected");
  }

  /** A client's settings. */
  public static final class Builder {
    private static final Duration SPIN_MAX = Duration.ofNanos(100_000);

    private @Nullable Path socket;
    private @Nullable String daemonUser;
    private String name = "java";
    private Duration timeout = Duration.ofSeconds(10);
    private Duration connectTimeout = Duration.ofSeconds(2);
    // About a sleep and its wake-up: spinning longer loses more than it can win.
    private Duration spin = Duration.ofNanos(100_000);
    private int requestRingBytes = Protocol.RING_BYTES_DEFAULT;
    private int completionRingBytes = Protocol.RING_BYTES_DEFAULT;
    private @Nullable Executor copies;

    private Builder() {}

    /** The daemon's socket; {@link SocketPaths#defaultPath} when it is not set. */
    public Builder socket(Path value) {
      if (value.toString().isEmpty()) {
        throw new IllegalArgumentException(
            "the socket's path is empty; give the path of the daemon's socket, or none for its"
                + " usual places");
      }
      socket = value;
      return this;
    }

    /**
     * Further users who may run the daemon, beside this user and root: names or numbers, separated
     * by commas. Where it is not set, those that {@code $KVTIER_DAEMON_USER} names, or else the
     * user whose socket lies where only root or this user can have put it.
     */
    public Builder daemonUser(String value) {
      daemonUser = value;
      return this;
    }

    /** What the daemon calls this client in its lists. */
    public Builder name(String value) {
      name = value;
      return this;
    }

    /** The deadline of operations that bring none: 10 s after they begin where it is not set. */
    public Builder timeout(Duration value) {
      timeout = positive(value);
      return this;
    }

    /**
     * How long a daemon may take to answer one message of the handshake, before another attempt
     * begins: 2 s where it is not set.
     */
    public Builder connectTimeout(Duration value) {
      connectTimeout = positive(value);
      return this;
    }

    /** How long a waiting thread spins at most before it sleeps. */
    public Builder spin(Duration value) {
      if (value.isNegative() || value.compareTo(SPIN_MAX) > 0) {
        throw new IllegalArgumentException("a thread spins at most " + SPIN_MAX + ", not " + value);
      }
      spin = value;
      return this;
    }

    /** The rings' sizes, powers of two. */
    public Builder rings(int requestBytes, int completionBytes) {
      requestRingBytes = ring(requestBytes);
      completionRingBytes = ring(completionBytes);
      return this;
    }

    /** Where asynchronous gets and puts copy; threads of the client when it is not set. */
    public Builder copyExecutor(Executor value) {
      copies = value;
      return this;
    }

    private static Duration positive(Duration value) {
      if (value.isNegative() || value.isZero()) {
        throw new IllegalArgumentException("a timeout is positive, not " + value);
      }
      return value;
    }

    private static int ring(int bytes) {
      if (Integer.bitCount(bytes) != 1
          || bytes < Protocol.RING_BYTES_MIN
          || bytes > Protocol.RING_BYTES_MAX) {
        throw new IllegalArgumentException(
            "a ring has a power of two of bytes from "
                + Protocol.RING_BYTES_MIN
                + " to "
                + Protocol.RING_BYTES_MAX
                + ", not "
                + bytes);
      }
      return bytes;
    }

    /**
     * Makes the client, and waits for the outcome of its first attempt to connect: for {@link
     * #timeout} or {@link #connectTimeout} at most, the longer of them. Never throws for want of a
     * daemon.
     *
     * @throws UnsupportedOperationException naming the processor architecture, where kvtier does
     *     not know it
     */
    public KvtierClient build() {
      var _ = Machine.current();
      Path path = socket;
      Connecting to =
          new Connecting(
              path == null ? SocketPaths.defaultPath() : path,
              DaemonUser.of(daemonUser),
              name,
              Math.clamp(connectTimeout.toMillis(), 1, Integer.MAX_VALUE),
              requestRingBytes,
              completionRingBytes);
      LocalClient client = new LocalClient(to, timeout.toNanos(), spin.toNanos(), copies);
      // Not the handshake's bound: on a busy machine it takes the JVM a second or two to begin.
      client.start(Math.max(timeout.toNanos(), connectTimeout.toNanos()));
      return new KvtierClient(client);
    }
  }
}
