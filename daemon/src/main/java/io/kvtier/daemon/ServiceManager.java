package io.kvtier.daemon;

import io.kvtier.protocol.linux.NotifySocket;
import java.io.IOException;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the daemon tells the service manager that started it, by {@code sd_notify(3)}: that it is
 * ready, that it reloads or stops, and, while there is progress, that it lives. Says nothing where
 * nobody asked. A manager that can't be reached stops nothing: it notices by itself. Any thread may
 * call.
 */
public final class ServiceManager {
  private static final Logger LOG = LoggerFactory.getLogger(ServiceManager.class);

  // As the manual advises, and once more: one late look is no reason to be killed.
  private static final int LOOKS_IN_TIMEOUT = 3;

  /** The way to the manager. */
  interface Channel {
    void send(String text) throws IOException;
  }

  private final Channel channel;
  private final long watchdogUs;

  /** Whether it was told so: what a reload says before that it would take for the start's end. */
  private volatile boolean ready;

  ServiceManager(Channel channel, long watchdogUs) {
    this.channel = channel;
    this.watchdogUs = watchdogUs;
  }

  /**
   * The manager that the environment names: {@code NOTIFY_SOCKET}, {@code WATCHDOG_USEC} and {@code
   * WATCHDOG_PID}.
   */
  public static ServiceManager of(Map<String, String> environment, long processId) {
    String address = environment.getOrDefault("NOTIFY_SOCKET", "");
    if (!address.isEmpty()) {
      try {
        // Open until the process ends: its last word goes through it.
        return new ServiceManager(
            NotifySocket.to(address)::send, watchdogUs(environment, processId));
      } catch (IOException e) {
        LOG.warn("the service manager gets no messages: NOTIFY_SOCKET: {}", e.getMessage());
      }
    }
    return new ServiceManager(_ -> {}, 0);
  }

  /** How long it waits for a sign of life; 0 where it wants none from this process. */
  private static long watchdogUs(Map<String, String> environment, long processId) {
    String timeout = environment.getOrDefault("WATCHDOG_USEC", "");
    String watched = environment.getOrDefault("WATCHDOG_PID", "");
    if (timeout.isEmpty() || !(watched.isEmpty() || watched.equals(String.valueOf(processId)))) {
      return 0;
    }
    try {
      return Long.parseLong(timeout);
    } catch (NumberFormatException e) {
      LOG.warn("no watchdog: WATCHDOG_USEC is '{}', expected microseconds", timeout);
      return 0;
    }
  }

  /** The daemon serves; {@code status} is a line for people. */
  public void ready(String status) {
    tell("READY=1\nSTATUS=" + status.replace('\n', ' '));
    ready = true;
  }

  /** The daemon reads its configuration again; {@link #reloaded} follows. */
  public void reloading() {
    // The manager wants CLOCK_MONOTONIC, which is what nanoTime reads on Linux.
    if (ready) {
      tell("RELOADING=1\nMONOTONIC_USEC=" + TimeUnit.NANOSECONDS.toMicros(System.nanoTime()));
    }
  }

  /** The daemon has read its configuration again, whatever came of it. */
  public void reloaded() {
    if (ready) {
      tell("READY=1");
    }
  }

  /** The daemon stops. */
  public void stopping() {
    tell("STOPPING=1\nSTATUS=stopping");
  }

  /**
   * From now on gives signs of life, while a count goes up.
   *
   * @param progress of the thread without which nothing works
   */
  public void watch(LongSupplier progress) {
    if (watchdogUs <= 0) {
      return;
    }
    Watchdog watchdog = new Watchdog(progress);
    Thread.ofPlatform()
        .daemon()
        .name("kvtier-watchdog")
        .start(() -> {
          try {
            while (true) {
              TimeUnit.MICROSECONDS.sleep(Math.max(watchdogUs / LOOKS_IN_TIMEOUT, 1));
              watchdog.look();
            }
          } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
          }
        });
  }

  /** Gives a sign of life for each look that finds progress since the one before. */
  final class Watchdog {
    private final LongSupplier progress;
    private long before;

    Watchdog(LongSupplier progress) {
      this.progress = progress;
      before = progress.getAsLong();
    }

    void look() {
      long now = progress.getAsLong();
      if (now == before) {
        LOG.warn(
            "the index makes no progress: the service manager gets no sign of life from now on");
        return;
      }
      before = now;
      tell("WATCHDOG=1");
    }
  }

  private void tell(String state) {
    try {
      channel.send(state);
    } catch (IOException e) {
      LOG.warn("the service manager can't be told {}: {}", state.lines().toList(), e.getMessage());
    }
  }
}
