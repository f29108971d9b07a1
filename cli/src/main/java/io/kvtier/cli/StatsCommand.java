package io.kvtier.cli;

import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import io.kvtier.client.CacheClient;
import io.kvtier.client.TextResult;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/**
 * Shows the daemon's counters. If the daemon does not answer, they are read from its memory, so
 * that a daemon that hangs can be examined.
 */
@Command(
    name = "stats",
    description = {
      "Shows the daemon's counters, once or repeatedly.",
      "Table of GPUs: REGIONS are pieces of GPU memory that engines have registered. STAGING and"
          + " CONTEXT are GPU memory that the daemon itself uses. OUT are bytes copied from the GPU"
          + " to host memory, IN from host memory to the GPU, PEERS from GPU memory to GPU memory."
    })
final class StatsCommand extends DaemonCommand {
  @Option(
      names = {"--watch", "--every"},
      paramLabel = "SECONDS",
      arity = "0..1",
      fallbackValue = "1",
      description = "Prints the counters that changed, every SECONDS (default: 1), until Ctrl-C.")
  private @Nullable Double watchSeconds;

  @Option(
      names = "--count",
      paramLabel = "N",
      description =
          "Ends after printing N times. With --count and without --watch, the command prints every"
              + " second, as with --watch=1.")
  private int rounds = Integer.MAX_VALUE;

  @Override
  int run(CacheClient client) {
    if (watchSeconds != null || rounds != Integer.MAX_VALUE) {
      return watch(client, watchSeconds == null ? 1 : watchSeconds);
    }
    TextResult stats = client.stats().join();
    boolean answers = stats.status() == Status.OK;
    JsonObject json = answers ? parse(stats.text()) : fromMemory(client, stats);
    Map<String, Long> counters = new Report(json).counters();
    if (isJson()) {
      json.set("balance", answers ? new Report(json).balance() : Report.balance(counters));
      line(json.toString());
    } else {
      if (!answers) {
        line("@|yellow the daemon does not answer; these counters are read from its memory|@");
      }
      table(counters).lines().forEach(this::line);
      Table gpus = gpus(json.get("gpus"));
      if (!gpus.isEmpty()) {
        line("");
        gpus.lines().forEach(this::line);
      }
    }
    return answers ? 0 : Failure.NEGATIVE;
  }

  private static JsonObject fromMemory(CacheClient client, TextResult stats) {
    Map<String, Long> counters = client.counters();
    if (counters.isEmpty()) {
      throw new Failure(Failure.NO_DAEMON, stats.text());
    }
    JsonObject json = new JsonObject();
    json.add("answers", false);
    json.add("counters", object(counters));
    return json;
  }

  private static JsonObject object(Map<String, Long> counters) {
    JsonObject object = new JsonObject();
    counters.forEach(object::add);
    return object;
  }

  private static Table table(Map<String, Long> counters) {
    Map<String, String> meanings = new HashMap<>();
    for (Counter counter : Counter.values()) {
      meanings.put(counter.key(), counter.meaning());
    }
    Table table = new Table("COUNTER", ">VALUE", "MEANING");
    counters.forEach(
        (name, value) -> table.row(name, format(name, value), meanings.getOrDefault(name, "")));
    return table;
  }

  /** The GPUs whose memory engines have registered; empty if the daemon does not answer. */
  private static Table gpus(@Nullable JsonValue gpus) {
    Table table =
        new Table(
            "GPU",
            "NAME",
            ">REGIONS",
            ">STAGING",
            ">CONTEXT",
            ">OUT",
            ">IN",
            ">PEERS",
            ">ERRORS",
            "STATE");
    if (gpus == null) {
      return table;
    }
    for (JsonValue each : gpus.asArray()) {
      JsonObject gpu = each.asObject();
      long context = gpu.get("context_bytes").asLong();
      JsonValue fence = gpu.get("fence");
      table.row(
          gpu.get("uuid").asString(),
          gpu.get("name").asString(),
          Units.count(gpu.get("regions").asLong()),
          Units.bytes(gpu.get("staging_bytes").asLong()),
          context < 0 ? "" : Units.bytes(context),
          Units.bytes(gpu.get("offloaded_bytes").asLong()),
          Units.bytes(gpu.get("onboarded_bytes").asLong()),
          Units.bytes(gpu.getLong("peer_bytes", 0)),
          Units.count(gpu.get("errors").asLong()),
          fence.isNull() ? "in use" : fence.asString());
    }
    return table;
  }

  private static String format(String name, long value) {
    return name.contains("bytes") ? Units.bytes(value) : Units.count(value);
  }

  private int watch(CacheClient client, double seconds) {
    if (seconds < 0.01 || seconds > 86400) {
      throw new Failure(
          Failure.USAGE, "--watch is " + seconds + ", expected 0.01 to 86400 seconds");
    }
    Set<String> gauges = new TreeSet<>();
    for (Counter counter : Counter.values()) {
      if (counter.meaning().startsWith("gauge")) {
        gauges.add(counter.key());
      }
    }
    Map<String, Long> before = client.counters();
    long beforeNs = System.nanoTime();
    for (int round = 0; round < rounds; round++) {
      try {
        Thread.sleep(Math.round(seconds * 1000));
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return 0;
      }
      Map<String, Long> now = client.counters();
      long nowNs = System.nanoTime();
      if (now.isEmpty()) {
        throw new Failure(Failure.NO_DAEMON, client.ping().join().detail());
      }
      print(before, now, gauges, (nowNs - beforeNs) / 1e9);
      before = now;
      beforeNs = nowNs;
    }
    return 0;
  }

  /** The counters that have changed: value, change and rate in one unit each. */
  static Table changes(
      Map<String, Long> before, Map<String, Long> now, Set<String> gauges, double seconds) {
    Table table = new Table("COUNTER", ">VALUE", ">CHANGE", ">RATE");
    now.forEach((name, value) -> {
      long change = value - before.getOrDefault(name, value);
      if (change != 0) {
        String rate =
            gauges.contains(name)
                ? ""
                : name.contains("bytes")
                    ? Units.bytes(Math.round(change / seconds)) + "/s"
                    : String.format(Locale.ROOT, "%,.1f/s", change / seconds);
        String sign = change > 0 ? "+" : "-";
        table.row(name, format(name, value), sign + format(name, Math.abs(change)), rate);
      }
    });
    return table;
  }

  private void print(
      Map<String, Long> before, Map<String, Long> now, Set<String> gauges, double seconds) {
    if (isJson()) {
      JsonObject json = new JsonObject();
      json.add("seconds", seconds);
      json.add("counters", object(now));
      Map<String, Long> changes = new LinkedHashMap<>();
      now.forEach((name, value) -> changes.put(name, value - before.getOrDefault(name, 0L)));
      json.add("changes", object(changes));
      json.add("balance", Report.balance(now));
      line(json.toString());
      out().flush();
      return;
    }
    Table table = changes(before, now, gauges, seconds);
    if (table.isEmpty()) {
      line("no counter has changed");
    } else {
      table.lines().forEach(this::line);
    }
    line("");
    out().flush();
  }
}
