package io.kvtier.cli;

import com.eclipsesource.json.JsonObject;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Options;
import io.kvtier.client.ValueResult;
import java.time.Duration;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** Deletes all blocks of a namespace. */
@Command(
    name = "clear",
    description = {
      "Deletes all blocks of a namespace from all tiers of this node, with this node's objects.",
      "Those of other nodes: kvtier object remove-namespace."
    })
final class ClearCommand extends DaemonCommand {
  @Mixin private Confirmation confirmation;

  @Option(
      names = "--namespace",
      paramLabel = "NAME",
      required = true,
      description = "The namespace, by its name.")
  private String namespaceName;

  @Option(
      names = "--wait",
      paramLabel = "SECONDS",
      defaultValue = "300",
      description = "How long it may take. Default: ${DEFAULT-VALUE}.")
  private long waitSeconds;

  @Override
  int run(KvtierClient client) {
    Report report = report(client);
    Options options = Options.DEFAULT.withTimeout(Duration.ofSeconds(Math.max(1, waitSeconds)));
    confirmation.require("Delete all blocks of namespace '" + namespaceName + "'");
    ValueResult result = client.blocking().clear(known(client, report, namespaceName), options);
    KeyedCommand.requireDone(result.status(), "the deletion", result.detail());
    line(
        isJson()
            ? new JsonObject().add("deleted", result.value()).toString()
            : Units.count(result.value()) + " blocks deleted");
    return 0;
  }
}
