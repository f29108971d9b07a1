package io.kvtier.cli;

import com.eclipsesource.json.JsonObject;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Options;
import io.kvtier.client.ValueResult;
import io.kvtier.protocol.Status;
import java.time.Duration;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** Copies what is only in memory to the tier below. */
@Command(
    name = "flush",
    description =
        "Copies what is only in memory to the tier below it, and waits until it is there. Nothing"
            + " leaves memory. Needs the role admin for all namespaces.",
    footer = {"", "Ends with 0 when all is below memory, with 1 otherwise."})
class FlushCommand extends DaemonCommand {
  @Option(
      names = "--namespace",
      paramLabel = "NAME",
      description = "Of this namespace. Default: of all, those of tenants among them.")
  private @Nullable String namespaceName;

  @Option(
      names = "--wait",
      paramLabel = "SECONDS",
      defaultValue = "600",
      description = "How long it may take. Default: ${DEFAULT-VALUE}.")
  private long waitSeconds;

  @Override
  int run(KvtierClient client) {
    return flush(client) ? 0 : Failure.NEGATIVE;
  }

  /** Flushes, and tells; true when all is below. */
  final boolean flush(KvtierClient client) {
    Options options = Options.DEFAULT.withTimeout(Duration.ofSeconds(Math.max(1, waitSeconds)));
    ValueResult result =
        namespaceName == null
            ? client.blocking().flushAll(options)
            : client.blocking().flush(known(client, report(client), namespaceName), options);
    if (result.status() == Status.UNAVAILABLE) {
      throw new Failure(Failure.NO_DAEMON, result.detail());
    }
    boolean done = result.status() == Status.OK;
    String words =
        done ? "ok" : result.detail().isEmpty() ? result.status().meaning() : result.detail();
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
          Units.count(result.value())
              + " blocks of "
              + (namespaceName == null ? "all namespaces" : "'" + namespaceName + "'")
              + " written: "
              + words);
    }
    return done;
  }
}
