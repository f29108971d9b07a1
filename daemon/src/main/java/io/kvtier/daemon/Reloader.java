package io.kvtier.daemon;

import io.kvtier.daemon.config.ConfigException;
import io.kvtier.daemon.config.ConfigSource;
import io.kvtier.daemon.config.ConfigText;
import io.kvtier.daemon.config.KvtierdConfig;
import io.kvtier.daemon.config.LoadedConfig;
import io.kvtier.daemon.index.core.OperatorAnswer;
import io.kvtier.daemon.log.DaemonLog;
import io.kvtier.protocol.Status;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads the configuration again while the daemon runs, applies the keys that can change live, and
 * names the keys that need a restart. A configuration with a mistake changes nothing.
 */
final class Reloader implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Reloader.class);
  private static final long ANSWER_S = 30;

  /** The parts of the daemon that a reload changes. */
  interface Live {
    /** Sends an operator's command to the index. */
    CompletableFuture<OperatorAnswer> command(String command);

    /** Changes the users and groups of the socket. */
    void changePeers(List<String> users, List<String> groups) throws IOException;

    /** Changes the caps of the object tier, if there is one. */
    void changeBandwidth(long loadBytesPerSecond, long storeBytesPerSecond);
  }

  /** The outcome of a reload. */
  private record Outcome(
      long number, boolean running, List<String> applied, List<String> restart, String problem) {}

  private final ConfigSource source;
  private final Live live;
  private final ServiceManager manager;
  private final ExecutorService thread =
      Executors.newSingleThreadExecutor(
          Thread.ofPlatform().daemon().name("kvtier-reload").factory());
  private boolean again;
  private volatile LoadedConfig effective;
  private volatile Outcome last = new Outcome(0, false, List.of(), List.of(), "");

  Reloader(ConfigSource source, LoadedConfig started, Live live) {
    this(source, started, live, ServiceManager.of(Map.of(), 0));
  }

  /** A reloader that tells a service manager of each reload. */
  Reloader(ConfigSource source, LoadedConfig started, Live live, ServiceManager manager) {
    this.source = source;
    this.effective = started;
    this.live = live;
    this.manager = manager;
  }

  /** The commands {@code reload}, {@code reload status}, {@code config show} and {@code source}. */
  OperatorAnswer run(List<String> words) {
    return switch (String.join(" ", words)) {
      case "reload" -> begin();
      case "reload status" -> new OperatorAnswer(Status.OK, json(last));
      case "config show" ->
          new OperatorAnswer(Status.OK, ConfigText.json(effective.entries()).encode());
      case "config source" -> new OperatorAnswer(Status.OK, sourceJson());
      default ->
          throw new IllegalArgumentException(
              "'"
                  + String.join(" ", words)
                  + "': expected reload, reload status, config show or config source");
    };
  }

  /** Every key as it stands now. */
  List<LoadedConfig.Entry> entries() {
    return effective.entries();
  }

  /** Begins to read again. */
  synchronized OperatorAnswer begin() {
    Outcome before = last;
    if (before.running) {
      return new OperatorAnswer(Status.BUSY, "the configuration is being read just now");
    }
    if (thread.isShutdown()) {
      return new OperatorAnswer(Status.UNAVAILABLE, "the daemon stops");
    }
    long number = before.number + 1;
    last = new Outcome(number, true, List.of(), List.of(), "");
    thread.execute(() -> carryOut(number));
    return new OperatorAnswer(Status.OK, "{\"number\":" + number + "}");
  }

  /** Carries a reload out. Every reload ends, as only one can run. */
  private void carryOut(long number) {
    Outcome outcome = new Outcome(number, false, List.of(), List.of(), "");
    try {
      manager.reloading();
      outcome = reload(number);
    } catch (Throwable e) {
      LOG.error("the configuration was not read to its end", e);
      outcome = new Outcome(number, false, List.of(), List.of(), "a defect of the daemon's: " + e);
    } finally {
      last = outcome;
      manager.reloaded();
      goOn();
    }
  }

  /**
   * Begins a reload for a caller who waits for no answer. If a reload is under way, another one
   * follows: the file may have changed meanwhile.
   */
  synchronized void beginOrRepeat() {
    again = begin().status() == Status.BUSY;
  }

  private synchronized void goOn() {
    if (again) {
      again = false;
      var _ = begin();
    }
  }

  private Outcome reload(long number) {
    LoadedConfig now = effective;
    LoadedConfig next;
    try {
      next = source.load();
      StartCheck.requireChange(next, now);
    } catch (ConfigException e) {
      LOG.warn("the configuration was not read again, nothing has changed: {}", e.getMessage());
      return new Outcome(number, false, List.of(), List.of(), String.valueOf(e.getMessage()));
    }
    Set<String> applied = new LinkedHashSet<>();
    List<String> appliedWords = new ArrayList<>();
    List<String> restart = new ArrayList<>();
    List<String> problems = new ArrayList<>();
    List<String> changed = next.changedFrom(now);
    for (String key : changed) {
      String words = key + ": " + now.shown(key) + " -> " + next.shown(key);
      try {
        if (apply(key, next.config())) {
          applied.add(key);
          appliedWords.add(words);
        } else {
          restart.add(words);
        }
      } catch (IOException e) {
        problems.add(key + ": " + e.getMessage());
      } catch (RuntimeException e) {
        // Later keys are still applied, and the next reload tries this key again.
        LOG.error("{} could not be changed", key, e);
        problems.add(key + ": " + e);
      }
    }
    effective = now.taking(applied, next);
    // One line for all keys: the log drops some of many lines with one cause.
    if (!appliedWords.isEmpty()) {
      LOG.info("changed {}", String.join("; ", appliedWords));
    }
    if (!restart.isEmpty()) {
      LOG.warn("needs a restart of the daemon: {}", String.join("; ", restart));
    }
    if (!problems.isEmpty()) {
      LOG.warn("could not be changed: {}", String.join("; ", problems));
    }
    LOG.info(
        "configuration read again: {} changed, {} need a restart, {} could not be changed",
        appliedWords.size(),
        restart.size(),
        problems.size());
    return new Outcome(number, false, appliedWords, restart, String.join("\n", problems));
  }

  /** Applies a key, if it can change while the daemon runs; false otherwise. */
  private boolean apply(String key, KvtierdConfig config) throws IOException {
    switch (key) {
      case "host.policy" -> command("policy host " + config.tiers().host().policy());
      case "ssd.policy" -> {
        // Without the tier there is no policy to swap: the next start takes the new one.
        if (effective.config().tiers().ssd().space().bytes() > 0) {
          command("policy ssd " + config.tiers().ssd().policy());
        }
      }
      case "ssd.admission" -> command("admission ssd " + config.tiers().ssd().admission());
      case "object.admission" ->
          command("admission object " + config.tiers().object().uploads().admission());
      case "ssd.scrub_bytes_per_second" ->
          command("set " + key + " " + config.tiers().ssd().rates().scrubBytesPerSecond());
      case "ssd.write_bytes_per_day" ->
          command("set " + key + " " + config.tiers().ssd().rates().writeBytesPerDay());
      case "object.load_bytes_per_second", "object.store_bytes_per_second" ->
          live.changeBandwidth(
              config.tiers().object().pipeline().bandwidth().loadBytesPerSecond(),
              config.tiers().object().pipeline().bandwidth().storeBytesPerSecond());
      case "socket.users", "socket.groups" ->
          live.changePeers(config.socket().users(), config.socket().groups());
      case "log.level" -> DaemonLog.setLevel(config.reports().log().level());
      default -> {
        return false;
      }
    }
    return true;
  }

  private void command(String command) throws IOException {
    try {
      OperatorAnswer answer = live.command(command).get(ANSWER_S, TimeUnit.SECONDS);
      if (answer.status() != Status.OK) {
        throw new IOException(answer.text());
      }
    } catch (ExecutionException | TimeoutException e) {
      throw new IOException("the index did not do '" + command + "'", e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("the daemon stops", e);
    }
  }

  /** The options with which kvtierd reads this configuration, without the environment. */
  private String sourceJson() {
    Path file = source.file();
    return new JsonObject()
        .put("file", file == null ? "" : file.toAbsolutePath().toString())
        .put("settings", new JsonArray(source.settings()))
        .encode();
  }

  private static String json(Outcome outcome) {
    return new JsonObject()
        .put("number", outcome.number)
        .put("running", outcome.running)
        .put("applied", new JsonArray(outcome.applied))
        .put("restart", new JsonArray(outcome.restart))
        .put("problem", outcome.problem)
        .encode();
  }

  @Override
  public synchronized void close() {
    thread.shutdownNow();
  }
}
