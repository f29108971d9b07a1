package io.kvtier.client.internal.session;

import io.kvtier.client.internal.shared.Log;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Errno;
import io.kvtier.protocol.linux.ErrnoException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Keeps a session with the daemon: a thread that connects, registers the namespaces, waits on the
 * socket for the session's end, and connects again with growing, jittered pauses.
 */
public final class Connector implements Runnable {
  private static final long PAUSE_MS_MIN = 10;
  private static final long PAUSE_MS_MAX = 1000;
  private static final long PAUSE_REFUSED_MS = 2000;
  private static final int HANGUP_SLICE_MS = 1000;

  /** Why there is no session. */
  public record Problem(Status status, String text) {}

  private final Connecting to;
  private final long spinNs;
  private final Consumer<Batch> answered;
  private final Runnable sessionChanged;
  private final Object monitor = new Object();

  /** The registrations that each new session needs. Guarded by the monitor. */
  private final List<Consumer<Session>> registrations = new ArrayList<>();

  private final Thread thread;

  private volatile @Nullable Session current;
  private volatile Problem problem;
  private volatile boolean closed;

  /** Whether an attempt is under way, and there has been no session before it. */
  private volatile boolean isFirstUnderWay = true;

  /** Under the monitor. */
  private long attempts;

  /**
   * A connector that does not run yet.
   *
   * @param spinNs how long a waiting thread spins before it sleeps
   * @param answered takes asynchronous operations whose last call was answered
   * @param sessionChanged runs when a session has begun or ended
   */
  public Connector(Connecting to, long spinNs, Consumer<Batch> answered, Runnable sessionChanged) {
    this.to = to;
    this.spinNs = spinNs;
    this.answered = answered;
    this.sessionChanged = sessionChanged;
    this.problem =
        new Problem(
            Status.UNAVAILABLE,
            "the daemon at " + to.socket() + " has not answered yet" + Handshake.WHY_SILENT);
    this.thread = Thread.ofPlatform().daemon().name("kvtier-connect").unstarted(this);
  }

  public void start() {
    thread.start();
  }

  /** The session, or null while there is none. */
  public @Nullable Session current() {
    Session session = current;
    return session != null && session.isAlive() ? session : null;
  }

  /**
   * The session. Before the first session, waits for an attempt that is under way: on a busy
   * machine a daemon may take long to answer.
   */
  public @Nullable Session session(long deadlineNs) {
    Session session = current();
    return session == null && isFirstUnderWay ? await(() -> !isFirstUnderWay, deadlineNs) : session;
  }

  public Problem problem() {
    Session session = current;
    return session != null && !session.isAlive()
        ? new Problem(Status.UNAVAILABLE, session.endText())
        : problem;
  }

  /**
   * Waits for a session, for the outcome of one attempt that begins after the call, or until the
   * timeout.
   */
  public @Nullable Session awaitAttempt(long timeoutNs, boolean untilConnected) {
    long end = System.nanoTime() + timeoutNs;
    synchronized (monitor) {
      long before = attempts;
      return await(
          () -> current() != null || (untilConnected ? isRefused() : attempts != before), end);
    }
  }

  /** Waits for a condition, until a deadline or an interrupt. */
  private @Nullable Session await(BooleanSupplier isSettled, long deadlineNs) {
    synchronized (monitor) {
      while (!closed && !isSettled.getAsBoolean()) {
        long leftMs = (deadlineNs - System.nanoTime()) / 1_000_000;
        if (leftMs <= 0) {
          break;
        }
        try {
          monitor.wait(leftMs);
        } catch (InterruptedException e) {
          Thread.currentThread().interrupt();
          break;
        }
      }
      return current();
    }
  }

  private boolean isRefused() {
    Status status = problem.status();
    return status == Status.DENIED || status == Status.VERSION_MISMATCH;
  }

  @Override
  public void run() {
    try {
      keepConnected();
    } finally {
      synchronized (monitor) {
        isFirstUnderWay = false;
        monitor.notifyAll();
      }
    }
  }

  private void keepConnected() {
    long pauseMs = PAUSE_MS_MIN;
    boolean wasConnected = false;
    while (!closed) {
      isFirstUnderWay = !wasConnected;
      Session session = connect();
      if (session == null) {
        pause(isRefused() ? PAUSE_REFUSED_MS : pauseMs);
        pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX);
        continue;
      }
      wasConnected = true;
      pauseMs = PAUSE_MS_MIN;
      while (!closed
          && session.isAlive()
          && !session.wires().socket().awaitHangup(HANGUP_SLICE_MS)) {
        // Still there.
      }
      if (closed) {
        session.end("the client is closed");
      } else {
        session.endWithReason();
      }
      problem = new Problem(Status.UNAVAILABLE, session.endText());
      current = null;
      session.lifetime().endUse();
      sessionChanged.run();
      if (!closed) {
        Log.info("lost the daemon at " + to.socket() + ": " + session.endText());
        pause(PAUSE_MS_MIN);
      }
    }
  }

  private void pause(long ms) {
    long jittered = ms / 2 + ThreadLocalRandom.current().nextLong(ms);
    synchronized (monitor) {
      attempts++;
      isFirstUnderWay = false;
      monitor.notifyAll();
      long end = System.nanoTime() + jittered * 1_000_000;
      while (!closed) {
        long left = (end - System.nanoTime()) / 1_000_000;
        if (left <= 0) {
          return;
        }
        try {
          monitor.wait(left);
        } catch (InterruptedException e) {
          return;
        }
      }
    }
  }

  private @Nullable Session connect() {
    Session session;
    try {
      session = new Session(Handshake.connect(to), answered, spinNs);
    } catch (Handshake.Refused e) {
      problem = new Problem(e.status(), "the daemon at " + to.socket() + " " + e.getMessage());
      return null;
    } catch (Handshake.Stranger e) {
      problem =
          new Problem(
              Status.DENIED,
              "what listens at " + to.socket() + " is not trusted: " + e.getMessage());
      return null;
    } catch (IOException e) {
      problem = new Problem(Status.UNAVAILABLE, explain(e));
      return null;
    }
    Set<Consumer<Session>> registered = Collections.newSetFromMap(new IdentityHashMap<>());
    while (true) {
      List<Consumer<Session>> missing = new ArrayList<>();
      synchronized (monitor) {
        for (Consumer<Session> registration : registrations) {
          if (registered.add(registration)) {
            missing.add(registration);
          }
        }
        if (missing.isEmpty()) {
          current = session;
          attempts++;
          isFirstUnderWay = false;
          monitor.notifyAll();
          break;
        }
      }
      missing.forEach(registration -> registration.accept(session));
    }
    sessionChanged.run();
    return session;
  }

  /** Whether a path is not a socket, so that nobody can ever listen there. */
  private static boolean isOtherFile(Path path) {
    return Files.isRegularFile(path) || Files.isDirectory(path);
  }

  private String explain(IOException e) {
    int errno = e instanceof ErrnoException failed ? failed.errno() : 0;
    return switch (errno) {
      case Errno.ENOENT, Errno.ECONNREFUSED ->
          "no daemon at "
              + to.socket()
              + (isOtherFile(to.socket())
                  ? ", which is no socket: set KVTIER_SOCKET to the daemon's"
                  : ": start kvtierd there, or set KVTIER_SOCKET to its socket");
      case Errno.EACCES, Errno.EPERM ->
          "no permission to use "
              + to.socket()
              + ": the daemon serves another user or group (its socket.users, groups and mode)";
      default -> "the daemon at " + to.socket() + " can't be reached: " + e.getMessage();
    };
  }

  /** Remembers a registration: it is made in every later session. */
  public void add(Consumer<Session> registration) {
    synchronized (monitor) {
      registrations.add(registration);
    }
  }

  public void remove(Consumer<Session> registration) {
    synchronized (monitor) {
      registrations.remove(registration);
    }
  }

  /** Ends the session and the thread. */
  public void close() {
    synchronized (monitor) {
      closed = true;
      problem = new Problem(Status.UNAVAILABLE, "the client is closed");
      monitor.notifyAll();
    }
    Session session = current;
    if (session != null) {
      session.end("the client is closed");
    }
    try {
      thread.join();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
