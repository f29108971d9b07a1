package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Options;
import io.kvtier.client.ValueResult;
import io.kvtier.protocol.Status;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** Copies what is only in memory to the tier below. */
@Command(
    name = "flush",
    description =
        "Copies what is only in memory to the tier below it, and waits until it is there. Nothing"
            + " leaves memory.")
class FlushCommand extends DaemonCommand {
  @Option(
      names = "--namespace",
      paramLabel = "NAME",
      description = "Of this namespace. Default: of all.")
  private @Nullable String namespaceName;

  @Option(
      names = "--wait",
      paramLabel = "SECONDS",
      defaultValue = "600",
      description = "How long it may take for each namespace. Default: ${DEFAULT-VALUE}.")
  private long waitSeconds;

  @Override
  int run(KvtierClient client) {
    return flush(client) ? 0 : Failure.NEGATIVE;
  }

  /** Flushes, and tells; true when all is below. */
  final boolean flush(KvtierClient client) {
    Report report = report(client);
    List<String> names =
        namespaceName == null
            ? report.namespaces().stream().map(Report.Namespace::name).sorted().toList()
            : List.of(namespaceName);
    Options options = Options.DEFAULT.withTimeout(Duration.ofSeconds(Math.max(1, waitSeconds)));
    JsonArray all = new JsonArray();
    Table table = new Table("NAMESPACE", ">WRITTEN", "STATUS");
    boolean done = true;
    for (String name : names) {
      ValueResult result = client.blocking().flush(known(client, report, name), options);
      if (result.status() == Status.UNAVAILABLE) {
        throw new Failure(Failure.NO_DAEMON, result.detail());
      }
      done &= result.status() == Status.OK;
      String words =
          result.status() == Status.OK
              ? "ok"
              : result.detail().isEmpty() ? result.status().meaning() : result.detail();
      all.add(
          new JsonObject()
              .add("namespace", name)
              .add("written", result.value())
              .add("status", KeyedCommand.name(result.status()))
              .add("detail", words));
      table.row(name, Units.count(result.value()), words);
    }
    if (isJson()) {
      line(all.toString());
    } else if (table.isEmpty()) {
      line("there is no namespace, and so nothing to write");
    } else {
      table.lines().forEach(this::line);
    }
    return done;
  }
}
