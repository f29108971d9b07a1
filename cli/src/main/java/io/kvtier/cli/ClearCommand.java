package io.kvtier.cli;

import com.eclipsesource.json.JsonObject;
import io.kvtier.client.CacheClient;
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
      "Deletes all blocks of a namespace from all tiers of this node, and from the object store"
          + " that nodes share.",
      "Copies in the memory and on the SSDs of other nodes stay."
    })
final class ClearCommand extends DaemonCommand {
  @Mixin private Confirmation confirmation;

  @Option(
      names = "--namespace",
      paramLabel = "NAME",
      required = true,
      description = "Name of the namespace, as 'kvtier namespaces' shows it.")
  private String namespaceName;

  @Option(
      names = "--wait",
      paramLabel = "SECONDS",
      defaultValue = "300",
      description = "Longest time that the deletion may take. Default: ${DEFAULT-VALUE}.")
  private long waitSeconds;

  @Override
  int run(CacheClient client) {
    Report report = report(client);
    Options options = Options.DEFAULT.withTimeout(Duration.ofSeconds(Math.max(1, waitSeconds)));
    confirmation.require("Delete all blocks of namespace '" + namespaceName + "'");
    ValueResult result = known(client, report, namespaceName).clear(options).join();
    KeyedCommand.requireDone(result.status(), "the deletion", result.detail());
    line(
        isJson()
            ? new JsonObject().add("deleted", result.value()).toString()
            : Units.counted(result.value(), "block") + " deleted");
    return 0;
  }
}
