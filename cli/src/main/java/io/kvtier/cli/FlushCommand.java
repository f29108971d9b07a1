package io.kvtier.cli;

import io.kvtier.client.CacheClient;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** Copies what is only in memory to the tier below. */
@Command(
    name = "flush",
    description =
        "Copies blocks that are only in memory to the tier below, and waits for the copies. No block"
            + " leaves memory. For all namespaces it needs the role admin.",
    footer = {
      "",
      "Exit code: 0 if every block is in a lower tier, else 1, also if there is no lower tier."
    })
final class FlushCommand extends FlushingCommand {
  @Option(
      names = "--namespace",
      paramLabel = "NAME",
      description = "Flushes this namespace only. Default: all namespaces, also those of tenants.")
  private @Nullable String namespaceName;

  @Override
  int run(CacheClient client) {
    return flush(client, namespaceName) ? 0 : Failure.NEGATIVE;
  }
}
