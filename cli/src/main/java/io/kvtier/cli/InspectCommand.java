package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonObject.Member;
import com.eclipsesource.json.JsonValue;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.TextResult;
import io.kvtier.protocol.Status;
import picocli.CommandLine.Command;

/** All that the daemon knows of a block. */
@Command(
    name = "inspect",
    description = {
      "Shows all that the daemon knows about a block: its copies and their states, its checksum,"
          + " how often it was used, and who holds it.",
      "Changes nothing. Needs the role admin."
    },
    footer = {"", "Exit code: 0 when every block is there, else 1."})
final class InspectCommand extends KeyedCommand {
  @Override
  int run(KvtierClient client) {
    var _ = keys();
    JsonArray all = new JsonArray();
    boolean isAny = true;
    for (String hex : keysHex()) {
      TextResult answer =
          client.blocking().admin("inspect " + group() + " " + hex + " " + namespaceName());
      if (answer.status() == Status.MISS) {
        isAny = false;
        all.add(new JsonObject().add("key", hex).add("missing", answer.text()));
      } else {
        all.add(new JsonObject().add("key", hex).merge(parse(answered(answer))));
      }
    }
    if (isJson()) {
      line(all.toString());
    } else {
      all.forEach(this::show);
    }
    return isAny ? 0 : Failure.NEGATIVE;
  }

  private void show(JsonValue block) {
    for (Member member : block.asObject()) {
      JsonValue value = member.getValue();
      String text =
          value.isString()
              ? value.asString()
              : value.isBoolean() ? value.asBoolean() ? "yes" : "no" : value.toString();
      String name = member.getName().replace('_', ' ');
      line(name + " ".repeat(Math.max(1, 18 - name.length())) + text);
    }
    line("");
  }
}
