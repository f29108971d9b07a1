package io.kvtier.client;

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
final class Connector implements Runnable {
  private static final long PAUSE_MS_MIN = 10;
  private static final long PAUSE_MS_MAX = 1000;
  private static final long PAUSE_REFUSED_MS = 2000;
  private static final int HANGUP_SLICE_MS = 1000;

  /** Why there is no session. */
  record Problem(Status status, String text) {}

  private final Config config;
  private final Consumer<Batch> answered;
  private final Runnable sessionChanged;
  private final Object monitor = new Object();

  /** Under the monitor. */
  private final List<Namespace> namespaces = new ArrayList<>();

  private final Thread thread;

  private volatile @Nullable Session current;
  private volatile Problem problem;
  private volatile boolean closed;

  /** Whether an attempt is under way, and there has been no session before it. */
  private volatile boolean isFirstUnderWay = true;

  /** Under the monitor. */
  private long attempts;

  Connector(Config config, Consumer<Batch> answered, Runnable sessionChanged) {
    this.config = config;
    this.answered = answered;
    this.sessionChanged = sessionChanged;
    this.problem =
        new Problem(
            Status.UNAVAILABLE,
            "the daemon at " + config.socket() + " has not answered yet" + Wires.WHY_SILENT);
    this.thread = Thread.ofPlatform().daemon().name("kvtier-connect").unstarted(this);
  }

  void start() {
    thread.start();
  }

  /** The session, or null while there is none. */
  @Nullable Session current() {
    Session session = current;
    return session != null && session.isAlive() ? session : null;
  }

  /**
   * The session. Where there has been none yet, an attempt that is under way is waited for, until
   * that time: on a busy machine a daemon that is there may take its time to answer.
   */
  @Nullable Session session(long deadlineNs) {
    Session session = current();
    return session == null && isFirstUnderWay ? await(() -> !isFirstUnderWay, deadlineNs) : session;
  }

  Problem problem() {
    Session session = current;
    return session != null && !session.isAlive()
        ? new Problem(Status.UNAVAILABLE, session.endText())
        : problem;
  }

  Path socket() {
    return config.socket();
  }

  /**
   * Waits for a session, or for the outcome of one attempt begun after the call, or for that long.
   */
  @Nullable Session awaitAttempt(long timeoutNs, boolean untilConnected) {
    long end = System.nanoTime() + timeoutNs;
    synchronized (monitor) {
      long before = attempts;
      return await(
          () -> current() != null || (untilConnected ? isRefused() : attempts != before), end);
    }
  }

  /** Waits for that, until that time or an interrupt. */
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
      session.endUse();
      sessionChanged.run();
      if (!closed) {
        Log.info("lost the daemon at " + config.socket() + ": " + session.endText());
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
      Wires wires =
          Wires.connect(
              config.socket(),
              config.daemonUser(),
              config.name(),
              config.requestRingBytes(),
              config.completionRingBytes(),
              config.connectTimeoutMs());
      session = new Session(wires, answered, config.spinNs());
    } catch (Wires.Refused e) {
      problem = new Problem(e.status(), "the daemon at " + config.socket() + " " + e.getMessage());
      return null;
    } catch (Wires.Stranger e) {
      problem =
          new Problem(
              Status.DENIED,
              "what listens at " + config.socket() + " is not trusted: " + e.getMessage());
      return null;
    } catch (IOException e) {
      problem = new Problem(Status.UNAVAILABLE, explain(e));
      return null;
    }
    Set<Namespace> registered = Collections.newSetFromMap(new IdentityHashMap<>());
    while (true) {
      List<Namespace> missing = new ArrayList<>();
      synchronized (monitor) {
        for (Namespace namespace : namespaces) {
          if (registered.add(namespace)) {
            missing.add(namespace);
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
      missing.forEach(namespace -> namespace.register(session));
    }
    sessionChanged.run();
    return session;
  }

  /** Whether something else than a socket is there: nobody can ever listen on it. */
  private static boolean isOtherFile(Path path) {
    return Files.isRegularFile(path) || Files.isDirectory(path);
  }

  private String explain(IOException e) {
    int errno = e instanceof ErrnoException failed ? failed.errno() : 0;
    return switch (errno) {
      case Errno.ENOENT, Errno.ECONNREFUSED ->
          "no daemon at "
              + config.socket()
              + (isOtherFile(config.socket())
                  ? ", which is no socket: set KVTIER_SOCKET to the daemon's"
                  : ": start kvtierd there, or set KVTIER_SOCKET to its socket");
      case Errno.EACCES, Errno.EPERM ->
          "no permission to use "
              + config.socket()
              + ": the daemon serves another user or group (its socket.users, groups and mode)";
      default -> "the daemon at " + config.socket() + " can't be reached: " + e.getMessage();
    };
  }

  /** Remembers a namespace: it is registered in every later session. */
  void add(Namespace namespace) {
    synchronized (monitor) {
      namespaces.add(namespace);
    }
  }

  void remove(Namespace namespace) {
    synchronized (monitor) {
      namespaces.remove(namespace);
    }
  }

  /** Ends the session and the thread. */
  void close() {
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
