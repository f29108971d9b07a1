package io.kvtier.cli;

import io.kvtier.client.KvtierClient;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** Copies what is only in memory to the tier below. */
@Command(
    name = "flush",
    description =
        "Copies what is only in memory to the tier below it, and waits until it is there. Nothing"
            + " leaves memory. Needs the role admin for all namespaces.",
    footer = {
      "",
      "Ends with 0 when all is below memory, with 1 otherwise: also where there is no tier below."
    })
final class FlushCommand extends FlushingCommand {
  @Option(
      names = "--namespace",
      paramLabel = "NAME",
      description = "Of this namespace. Default: of all, those of tenants among them.")
  private @Nullable String namespaceName;

  @Override
  int run(KvtierClient client) {
    return flush(client, namespaceName) ? 0 : Failure.NEGATIVE;
  }
}
