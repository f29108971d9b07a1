package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import io.kvtier.client.BatchResult;
import io.kvtier.client.CacheClient;
import io.kvtier.client.Keys;
import io.kvtier.protocol.Status;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** Deletes single blocks. */
@Command(
    name = "delete",
    description =
        "Deletes blocks from all tiers of this node, and from the object store that nodes share.",
    footer = {"", "Exit code: 0 when every block was there, else 1."})
final class DeleteCommand extends KeyedCommand {
  @Mixin private Confirmation confirmation;

  @Override
  int run(CacheClient client) {
    Keys keys = keys();
    confirmation.require(
        "Delete "
            + Units.counted(keysHex().size(), "block")
            + " of namespace '"
            + namespaceName()
            + "'");
    BatchResult result = namespace(client).delete(keys, options()).join();
    requireDone(result.status(), "the deletion", result.detail());
    JsonArray all = new JsonArray();
    Table table = new Table("KEY", "STATUS");
    for (int i = 0; i < keysHex().size(); i++) {
      String status = name(result.blocks().status(i));
      all.add(new JsonObject().add("key", keysHex().get(i)).add("status", status));
      table.row(keysHex().get(i), status.equals("ok") ? "deleted" : status);
    }
    if (isJson()) {
      line(all.toString());
    } else {
      table.lines().forEach(this::line);
    }
    return result.blocks().all(Status.OK) ? 0 : Failure.NEGATIVE;
  }
}
