package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import io.kvtier.client.CacheClient;
import io.kvtier.client.Keys;
import io.kvtier.client.LookupResult;
import io.kvtier.protocol.Status;
import picocli.CommandLine.Command;

/** Shows which tiers have a block. */
@Command(
    name = "lookup",
    description = "Shows which tier holds each block. Changes nothing: it does not count as a use.",
    footer = {"", "Exit code: 0 when every block is there, else 1."})
final class LookupCommand extends KeyedCommand {
  @Override
  int run(CacheClient client) {
    Keys keys = keys();
    LookupResult result = namespace(client).lookup(keys, options()).join();
    requireDone(result.status(), "the lookup", result.detail());
    if (isJson()) {
      line(json(result));
    } else {
      print(result);
    }
    return result.blocks().all(Status.OK) ? 0 : Failure.NEGATIVE;
  }

  private String json(LookupResult result) {
    JsonArray blocks = new JsonArray();
    for (int i = 0; i < keysHex().size(); i++) {
      blocks.add(
          new JsonObject()
              .add("key", keysHex().get(i))
              .add("status", name(result.blocks().status(i)))
              .add("tier", name(result.blocks().tier(i))));
    }
    return new JsonObject()
        .add("namespace", namespaceName())
        .add("group", group())
        .add("run", result.run())
        .add("load_time_ns", result.loadTimeNs())
        .add("blocks", blocks)
        .toString();
  }

  private void print(LookupResult result) {
    Table table = new Table("KEY", "STATUS", "TIER");
    for (int i = 0; i < keysHex().size(); i++) {
      Status status = result.blocks().status(i);
      table.row(
          keysHex().get(i),
          name(status),
          status == Status.OK ? name(result.blocks().tier(i)) : "-");
    }
    table.lines().forEach(this::line);
    line(
        "the first "
            + Units.counted(result.run(), "block")
            + (result.run() == 1 ? " is" : " are")
            + " there without a gap"
            + (result.loadTimeNs() == 0
                ? ""
                : "; loading takes about " + Units.nanoseconds(result.loadTimeNs())));
  }
}
