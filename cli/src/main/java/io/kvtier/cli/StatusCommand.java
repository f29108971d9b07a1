package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import io.kvtier.client.CacheClient;
import io.kvtier.client.DaemonInfo;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.PingResult;
import io.kvtier.protocol.Status;
import java.util.DoubleSummaryStatistics;
import java.util.Locale;
import java.util.Map;
import picocli.CommandLine.Command;

/** Shows in a few lines whether the daemon works. */
@Command(
    name = "status",
    description = "Shows whether the daemon answers, what is wrong with it, and how full it is.",
    footer = {"", "Exit code: 0 if the daemon answers, 1 if it does not, 3 if there is no daemon."})
final class StatusCommand extends DaemonCommand {
  /** Maximum namespaces whose errors are shown: the ones with the most bytes. */
  private static final int LOSSY_MAX = 5;

  @Override
  int run(CacheClient client) {
    PingResult ping = client.ping().join();
    if (ping.status() == Status.UNAVAILABLE) {
      throw noDaemon(ping);
    }
    if (ping.status() != Status.OK) {
      if (client instanceof KvtierClient local) {
        return hanging(local, ping);
      }
      throw new Failure(
          Failure.NEGATIVE, "the daemon at " + client.place() + " refuses: " + ping.detail());
    }
    Report report = report(client);
    if (isJson()) {
      JsonObject answer = new JsonObject();
      answer.add("answers", true);
      answer.add(placeName(client), client.place());
      answer.add("round_trip_ns", ping.roundTripNs());
      for (String field : new String[] {"version", "pid", "generation", "uptime_s"}) {
        if (report.json().get(field) != null) {
          answer.add(field, report.json().get(field));
        }
      }
      answer.add("draining", report.json().getBoolean("draining", false));
      answer.add("sessions", report.otherClients());
      answer.add("namespaces", report.namespacesTotal());
      answer.add("balance", report.balance());
      if (report.object() != null) {
        answer.add("object", report.object());
      }
      answer.add("savings", savings(report.counters()));
      answer.add("expected", new ExpectedBlocks(report.counters()).json());
      answer.add("degraded", !report.troubles().isEmpty());
      JsonArray troubles = new JsonArray();
      report.troubles().forEach(troubles::add);
      answer.add("troubles", troubles);
      line(answer.toString());
      return 0;
    }
    JsonObject json = report.json();
    line(
        "@|bold kvtierd "
            + json.getString("version", "?")
            + "|@ answers in "
            + Units.nanoseconds(ping.roundTripNs())
            + ": process "
            + json.getLong("pid", 0)
            + ", up "
            + Units.seconds(json.getLong("uptime_s", 0)));
    line(pad(placeName(client)) + client.place());
    for (JsonObject trouble : report.troubles()) {
      line(
          pad("trouble")
              + "@|red "
              + trouble.getString("part", "?")
              + ": "
              + trouble.getString("reason", "?")
              + "|@");
      String cure = trouble.getString("cure", "");
      if (!cure.isEmpty()) {
        line(pad("") + "to mend it: " + cure);
      }
    }
    for (Report.Tier tier : report.tiers()) {
      long used = tier.number("bytes_used");
      long capacity = tier.number("bytes_capacity");
      line(
          pad(tier.name())
              + Units.bytes(used)
              + " of "
              + Units.bytes(capacity)
              + " ("
              + Units.percent(used, capacity)
              + "), "
              + Units.counted(tier.number("slots_resident"), "block"));
    }
    JsonObject retained = report.retained();
    if (retained.getLong("blocks", 0) > 0) {
      long bytes = retained.getLong("bytes", 0);
      long bytesMax = retained.getLong("bytes_max", 0);
      line(
          pad("retained")
              + Units.bytes(bytes)
              + " of at most "
              + Units.bytes(bytesMax)
              + " ("
              + Units.percent(bytes, bytesMax)
              + "), "
              + Units.counted(retained.getLong("blocks", 0), "block"));
    }
    Map<String, Long> counters = report.counters();
    JsonObject object = report.object();
    if (object != null) {
      line(
          pad("object")
              + object.getString("store", "?")
              + ", "
              + Units.counted(object.getLong("stored", 0), "block")
              + " stored since the start");
    }
    line(pad("namespaces") + report.namespacesTotal());
    line(pad("sessions") + report.otherClients() + " without this command's");
    ToolsLeftOut engines = new ToolsLeftOut(counters);
    line(
        pad("lookups")
            + share(engines.of("lookup_hits"), engines.of("lookup_blocks"))
            + " found"
            + engines.remark());
    long served = Report.hits(counters) - engines.ofTools("hits");
    long asked =
        counters.getOrDefault("acquire_blocks", 0L)
            - engines.ofTools("hits")
            - engines.ofTools("misses");
    line(pad("gets") + share(served, Math.max(served, asked)) + " served" + engines.remark());
    line(pad("saved") + saved(counters));
    String expected = new ExpectedBlocks(counters).words();
    if (!expected.isEmpty()) {
      line(pad("expected") + expected);
    }
    String encoded = encoded(counters);
    if (!encoded.isEmpty()) {
      line(pad("encoded") + encoded);
    }
    report.namespaces().stream()
        .filter(namespace -> !namespace.encodingErrors().isEmpty())
        .limit(LOSSY_MAX)
        .forEach(namespace -> line(pad("error") + error(namespace)));
    return 0;
  }

  /** Counts of engines: without those of kvtier's own tools. */
  private record ToolsLeftOut(Map<String, Long> counters) {
    long ofTools(String name) {
      return counters.getOrDefault("tool_" + name, 0L);
    }

    long of(String name) {
      return Math.max(0, counters.getOrDefault(name, 0L) - ofTools(name));
    }

    String remark() {
      return ofTools("lookup_blocks") + ofTools("hits") + ofTools("misses") > 0
          ? ", without kvtier's own tools"
          : "";
    }
  }

  private static JsonObject savings(Map<String, Long> counters) {
    JsonObject savings = new JsonObject();
    for (String name : new String[] {"saved_tokens", "saved_prefill_ns", "spent_load_ns"}) {
      savings.add(name, counters.getOrDefault(name, 0L));
    }
    return savings;
  }

  /** What engines saved since the start, in words. */
  private static String saved(Map<String, Long> counters) {
    long tokens = counters.getOrDefault("saved_tokens", 0L);
    if (tokens == 0) {
      return "nothing since the start, as far as engines have reported";
    }
    long prefillNs = counters.getOrDefault("saved_prefill_ns", 0L);
    return (prefillNs == 0 ? "" : Units.duration(prefillNs) + " of prefill, ")
        + Units.counted(tokens, "token")
        + " since the start; loading took "
        + Units.duration(counters.getOrDefault("spent_load_ns", 0L));
  }

  /** The puts into namespaces with an encoding, in words; empty if there were none. */
  private static String encoded(Map<String, Long> counters) {
    long blocks = counters.getOrDefault("put_encoded", 0L);
    long raw = counters.getOrDefault("put_raw", 0L);
    if (blocks + raw == 0) {
      return "";
    }
    long bytes = counters.getOrDefault("put_encoded_bytes", 0L);
    long rawBytes = counters.getOrDefault("put_encoded_raw_bytes", 0L);
    return share(blocks, blocks + raw)
        + " put since the start in namespaces with an encoding"
        + (rawBytes == 0 ? "" : ", in " + Units.percent(bytes, rawBytes) + " of their bytes");
  }

  /** How lossy the encoding of a namespace was, in words. */
  private static String error(Report.Namespace namespace) {
    DoubleSummaryStatistics layers =
        namespace.encodingErrors().stream().mapToDouble(Double::doubleValue).summaryStatistics();
    String mean = String.format(Locale.ROOT, "%.2f %%", 100 * layers.getAverage());
    String range =
        String.format(
            Locale.ROOT,
            ", from %.2f to %.2f %% in its %d layers",
            100 * layers.getMin(),
            100 * layers.getMax(),
            layers.getCount());
    return mean + " of '" + namespace.fullName() + "'" + (layers.getCount() == 1 ? "" : range);
  }

  private static String placeName(CacheClient client) {
    return client instanceof KvtierClient ? "socket" : "address";
  }

  private static String share(long part, long whole) {
    return Units.count(part)
        + " of "
        + Units.counted(whole, "block")
        + " ("
        + Units.percent(part, whole)
        + ")";
  }

  private static String pad(String name) {
    return name + " ".repeat(Math.max(1, 12 - name.length()));
  }

  private int hanging(KvtierClient client, PingResult ping) {
    DaemonInfo info = client.daemon();
    String since =
        client
            .sinceHeartbeat()
            .map(age -> ", no sign of life from its index for " + Units.nanoseconds(age.toNanos()))
            .orElse("");
    String text =
        "kvtierd at "
            + client.socket()
            + (info == null ? "" : ", process " + info.pid() + ",")
            + " does not answer: "
            + ping.detail()
            + since;
    if (isJson()) {
      JsonObject answer = new JsonObject();
      answer.add("answers", false).add("socket", client.socket().toString());
      answer.add("detail", text);
      line(answer.toString());
    } else {
      line("@|red " + text + "|@");
    }
    return Failure.NEGATIVE;
  }
}
