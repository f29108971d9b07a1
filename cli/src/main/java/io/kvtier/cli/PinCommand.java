package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.TextResult;
import io.kvtier.protocol.Status;
import picocli.CommandLine.Command;

/** Keeps blocks where they are. */
@Command(
    name = "pin",
    description = {
      "Protects blocks from eviction, in the tiers that they are in, until 'unpin', their deletion,"
          + " or the end of the daemon. Pins are counted: a block pinned twice needs two 'unpin'.",
      "Pinned blocks leave less space for others. 'inspect' shows the pins of a block. Needs the"
          + " role admin."
    })
class PinCommand extends KeyedCommand {
  /** Lets them go again. */
  @Command(name = "unpin", description = "Removes a pin that 'pin' set. Pins of clients stay.")
  static final class Un extends PinCommand {
    @Override
    String verb() {
      return "unpin";
    }
  }

  String verb() {
    return "pin";
  }

  @Override
  final int run(KvtierClient client) {
    var _ = keys();
    JsonArray all = new JsonArray();
    Table table = new Table("KEY", "ANSWER");
    boolean done = true;
    for (String hex : keysHex()) {
      TextResult answer =
          client.blocking().admin(verb() + " " + group() + " " + hex + " " + namespaceName());
      if (answer.status() != Status.MISS && answer.status() != Status.PENDING) {
        var _ = answered(answer);
      }
      done &= answer.status() == Status.OK;
      all.add(
          new JsonObject()
              .add("key", hex)
              .add("status", name(answer.status()))
              .add("answer", answer.text()));
      table.row(hex, answer.text());
    }
    if (isJson()) {
      line(all.toString());
    } else {
      table.lines().forEach(this::line);
    }
    return done ? 0 : Failure.NEGATIVE;
  }
}
