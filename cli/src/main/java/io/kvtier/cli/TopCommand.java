package io.kvtier.cli;

import com.eclipsesource.json.JsonObject;
import io.kvtier.client.KvtierClient;
import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** What the daemon does, again and again, from its memory: also of one that hangs. */
@Command(
    name = "top",
    description = {
      "What the daemon does, live: tiers, hits, throughput, and what goes wrong.",
      "It is read from the daemon's memory, also when the daemon hangs. Ends with Ctrl-C."
    })
final class TopCommand extends DaemonCommand {
  private static final String CLEAR = "\u001b[H\u001b[2J\u001b[3J";
  private static final int BAR = 20;
  private static final long LATE_MS = 2000;

  @Option(
      names = "--every",
      paramLabel = "SECONDS",
      defaultValue = "1",
      description = "How often. Default: ${DEFAULT-VALUE}.")
  private double everySeconds;

  @Option(names = "--count", paramLabel = "N", description = "Ends after so many.")
  private int rounds = Integer.MAX_VALUE;

  @Override
  int run(KvtierClient client) {
    if (!(everySeconds >= 0.05 && everySeconds <= 3600)) {
      throw new Failure(Failure.USAGE, "--every is 0.05 to 3600 seconds");
    }
    Map<String, Long> before = client.counters();
    long beforeNs = System.nanoTime();
    for (int round = 0; round < rounds; round++) {
      try {
        Thread.sleep(Math.round(everySeconds * 1000));
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return 0;
      }
      Map<String, Long> now = client.counters();
      if (now.isEmpty()) {
        throw new Failure(Failure.NO_DAEMON, client.blocking().ping().detail());
      }
      long nowNs = System.nanoTime();
      Change change = new Change(before, now, (nowNs - beforeNs) / 1e9);
      if (isJson()) {
        line(json(change).toString());
      } else {
        show(client, change);
      }
      out().flush();
      before = now;
      beforeNs = nowNs;
    }
    return 0;
  }

  /** Two looks at the counters. */
  private record Change(Map<String, Long> before, Map<String, Long> now, double seconds) {
    long value(String name) {
      return now.getOrDefault(name, 0L);
    }

    long more(String name) {
      return value(name) - before.getOrDefault(name, 0L);
    }

    double rate(String name) {
      return more(name) / seconds;
    }
  }

  private static JsonObject json(Change change) {
    JsonObject json = new JsonObject().add("seconds", change.seconds);
    JsonObject rates = new JsonObject();
    change.now.forEach((name, value) -> rates.add(name, change.rate(name)));
    JsonObject values = new JsonObject();
    change.now.forEach(values::add);
    return json.add("counters", values).add("per_second", rates);
  }

  private void show(KvtierClient client, Change change) {
    if (isTerminal()) {
      out().print(CLEAR);
    }
    Optional<Duration> heartbeat = client.sinceHeartbeat();
    long ageMs = heartbeat.map(Duration::toMillis).orElse(0L);
    line(
        "@|bold kvtierd|@ at "
            + client.socket()
            + ", "
            + Units.count(Math.max(0, change.value("sessions") - 1))
            + " sessions beside this one, "
            + Units.count(change.value("operations"))
            + " requests under way"
            + (ageMs > LATE_MS
                ? ", @|red its index last looked round "
                    + Units.nanoseconds(ageMs * 1_000_000)
                    + " ago|@"
                : ""));
    for (String tier : new String[] {"host", "ssd"}) {
      tier(tier, change);
    }
    line(
        "lookups "
            + Units.percent(change.more("lookup_hits"), change.more("lookup_blocks"))
            + " of "
            + perSecond(change, "lookup_blocks")
            + " blocks/s found");
    long asked = change.more("acquire_blocks");
    long host = change.more("hits_host");
    long ssd = change.more("hits_ssd");
    long object = change.more("hits_object");
    long gpu = change.more("hits_gpu");
    line(
        "gets    "
            + Units.percent(Report.hits(change.now) - Report.hits(change.before), asked)
            + " of "
            + perSecond(change, "acquire_blocks")
            + " blocks/s there: host "
            + Units.percent(host, asked)
            + ", SSD "
            + Units.percent(ssd, asked)
            + ", object "
            + Units.percent(object, asked)
            + ", another GPU "
            + Units.percent(gpu, asked));
    line("puts    " + perSecond(change, "put_blocks") + " blocks/s");
    Table table = new Table("", ">READ", ">WRITTEN");
    for (String tier : new String[] {"host", "ssd", "object"}) {
      table.row(
          tier,
          bytesPerSecond(change, tier + "_read_bytes"),
          bytesPerSecond(change, tier + "_written_bytes"));
    }
    table.row(
        "gpu",
        bytesPerSecond(change, "gpu_offloaded_bytes"),
        bytesPerSecond(change, "gpu_onboarded_bytes"));
    String peer = bytesPerSecond(change, "gpu_peer_bytes");
    table.row("gpu to gpu", peer, peer);
    table.lines().forEach(this::line);
    StringBuilder moves = new StringBuilder();
    for (String name : new String[] {"evictions", "demotions", "promotions", "dropped"}) {
      moves.append(moves.isEmpty() ? "" : ", ").append(name).append(' ');
      moves.append(perSecond(change, name)).append("/s");
    }
    line(moves.toString());
    for (String name :
        new String[] {
          "put_busy", "deadlines", "io_errors", "object_errors", "gpu_errors", "corrupt"
        }) {
      if (change.more(name) > 0) {
        line("@|red " + name + " +" + Units.count(change.more(name)) + "|@");
      }
    }
    if (!isTerminal()) {
      line("");
    }
  }

  private void tier(String tier, Change change) {
    long capacity = change.value(tier + "_bytes_capacity");
    if (capacity > 0) {
      long used = change.value(tier + "_bytes_used");
      int full = (int) Math.min(BAR, Math.round((double) BAR * used / capacity));
      line(
          String.format(
              Locale.ROOT,
              "%-8s%s%s %s of %s, %s blocks",
              tier,
              "#".repeat(full),
              ".".repeat(BAR - full),
              Units.bytes(used),
              Units.bytes(capacity),
              Units.count(change.value(tier + "_slots_resident"))));
    }
  }

  private static String perSecond(Change change, String name) {
    return String.format(Locale.ROOT, "%,.0f", change.rate(name));
  }

  private static String bytesPerSecond(Change change, String name) {
    return Units.bytes(Math.round(change.rate(name))) + "/s";
  }
}
