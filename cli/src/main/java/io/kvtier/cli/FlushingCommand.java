package io.kvtier.cli;

import com.eclipsesource.json.JsonObject;
import io.kvtier.client.CacheClient;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Options;
import io.kvtier.client.ValueResult;
import io.kvtier.protocol.Status;
import java.time.Duration;
import java.util.List;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Option;

/** A command that copies blocks that are only in memory to the tier below. */
abstract class FlushingCommand extends DaemonCommand {
  @Option(
      names = "--wait",
      paramLabel = "SECONDS",
      defaultValue = "600",
      description = "Longest time that the copies may take. Default: ${DEFAULT-VALUE}.")
  private long waitSeconds;

  /**
   * Flushes, and prints the result; true if all blocks are in the tier below.
   *
   * @param namespaceName null: all namespaces, also those of tenants
   */
  final boolean flush(CacheClient client, @Nullable String namespaceName) {
    Options options = Options.DEFAULT.withTimeout(Duration.ofSeconds(Math.max(1, waitSeconds)));
    ValueResult result =
        namespaceName == null
            ? flushAll(client, options)
            : known(client, report(client), namespaceName).flush(options).join();
    if (result.status() == Status.UNAVAILABLE) {
      throw new Failure(Failure.NO_DAEMON, result.detail());
    }
    String words =
        result.status() == Status.OK
            ? withoutTierBelow(report(client), namespaceName)
            : result.detail().isEmpty() ? result.status().meaning() : result.detail();
    boolean done = words.isEmpty();
    words = done ? "ok" : words;
    if (isJson()) {
      JsonObject json = new JsonObject();
      if (namespaceName != null) {
        json.add("namespace", namespaceName);
      }
      line(
          json.add("written", result.value())
              .add("status", KeyedCommand.name(result.status()))
              .add("detail", words)
              .toString());
    } else {
      line(
          Units.counted(result.value(), "block")
              + " of "
              + (namespaceName == null ? "all namespaces" : "'" + namespaceName + "'")
              + " written: "
              + words);
    }
    return done;
  }

  /**
   * Names, in words, the blocks that stay only in memory because there is no tier below it; empty
   * if there are none. A flush does not wait for them.
   *
   * @param namespaceName as of {@link #flush}
   */
  static String withoutTierBelow(Report report, @Nullable String namespaceName) {
    if (report.object() != null) {
      return "";
    }
    List<JsonObject> tenants = report.tenants();
    if (tenants.isEmpty()) {
      boolean hasSsd = report.tiers().stream().anyMatch(tier -> tier.name().equals("ssd"));
      return hasSsd || hostBlocks(report, namespaceName) == 0
          ? ""
          : "there is no tier below memory (ssd.bytes is 0, object.store is none)";
    }
    // The first entry is the part of no tenant. A named namespace is always one without a
    // tenant.
    List<JsonObject> asked = namespaceName == null ? tenants : tenants.subList(0, 1);
    String stranded =
        asked.stream()
            .filter(tenant -> tenant.getLong("ssd_bytes_capacity", 0) == 0)
            .filter(tenant -> tenant.getLong("host_bytes_used", 0) > 0)
            .map(tenant -> tenant.getString("name", ""))
            .map(name -> name.isEmpty() ? "no tenant" : "tenant '" + name + "'")
            .collect(Collectors.joining(", "));
    return stranded.isEmpty() || (namespaceName != null && hostBlocks(report, namespaceName) == 0)
        ? ""
        : "there is no tier below memory for the blocks of " + stranded;
  }

  private static long hostBlocks(Report report, @Nullable String namespaceName) {
    Report.Namespace namespace = namespaceName == null ? null : report.namespace(namespaceName);
    if (namespace != null) {
      return namespace.hostBlocks();
    }
    return report.tiers().stream()
        .filter(tier -> tier.name().equals("host"))
        .mapToLong(tier -> tier.number("slots_resident"))
        .sum();
  }

  private static ValueResult flushAll(CacheClient client, Options options) {
    if (client instanceof KvtierClient local) {
      return local.blocking().flushAll(options);
    }
    throw new Failure(
        Failure.USAGE,
        "all namespaces can be flushed over the daemon's socket only: give --namespace, or leave"
            + " --address out");
  }
}
