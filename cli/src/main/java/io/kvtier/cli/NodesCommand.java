package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import io.kvtier.client.KvtierClient;
import java.util.Locale;
import picocli.CommandLine.Command;

/** Shows the other nodes that the daemon reads blocks from, and those that read here. */
@Command(
    name = "nodes",
    description = {
      "Shows the other nodes of nodes.peers, or those that this node has found (nodes.membership):"
          + " whether the daemon is connected to them, the last round trip, the blocks that came"
          + " from them, the bytes that were pushed to them, how often the node was asked because"
          + " another one was late (HEDGES), and how often it then delivered first (WON).",
      "Below that it shows the connections of nodes that read blocks from this one, and what they"
          + " have pushed here."
    },
    subcommands = NodesFindCommand.class)
final class NodesCommand extends DaemonCommand {
  @Override
  int run(KvtierClient client) {
    String answer = ask(client, "nodes");
    if (isJson()) {
      line(answer);
      return 0;
    }
    JsonObject nodes = parse(answer);
    line("this node   " + nodes.getString("name", "") + ", " + nodes.getString("security", ""));
    String membership = nodes.getString("membership", "static");
    if (!membership.equals("static")) {
      line("membership  " + membership);
    }
    directory(nodes.get("directory"));
    JsonArray peers = nodes.get("peers").asArray();
    if (peers.isEmpty()) {
      line(
          membership.equals("static")
              ? "reads from no node: nodes.peers is empty"
              : "reads from no node now");
    } else {
      peers(peers);
    }
    if (nodes.getString("listen", "").isEmpty()) {
      line("serves no node: nodes.listen is empty");
      return 0;
    }
    Table table = new Table("READERS");
    nodes.get("readers").asArray().forEach(each -> table.row(each.asString()));
    if (table.isEmpty()) {
      line("no node reads here now");
    } else {
      table.lines().forEach(this::line);
    }
    return 0;
  }

  /** This node's part of the directory; JSON null if all nodes are asked. */
  private void directory(JsonValue part) {
    if (part.isObject()) {
      JsonObject directory = part.asObject();
      line(
          "directory   "
              + directory.getInt("nodes", 0)
              + " nodes, "
              + directory.getLong("entries", 0)
              + " entries here in "
              + Units.bytes(directory.getLong("bytes", 0)));
    }
  }

  private void peers(JsonArray peers) {
    Table table =
        new Table(
            "NODE",
            "ADDRESS",
            "STATE",
            ">ROUND TRIP",
            ">SPEED",
            ">BLOCKS",
            ">BYTES",
            ">PUSHED",
            ">HEDGES",
            ">WON",
            ">ERRORS",
            "REASON");
    for (JsonValue each : peers) {
      JsonObject peer = each.asObject();
      long roundTripNs = peer.getLong("round_trip_ns", 0);
      table.row(
          peer.getString("name", ""),
          peer.getString("address", ""),
          peer.getString("state", ""),
          roundTripNs == 0 ? "" : String.format(Locale.ROOT, "%.2f ms", roundTripNs / 1e6),
          speed(peer.getLong("bytes_per_second", 0)),
          Long.toString(peer.getLong("blocks", 0)),
          Units.bytes(peer.getLong("bytes", 0)),
          Units.bytes(peer.getLong("pushed_bytes", 0)),
          Long.toString(peer.getLong("hedges", 0)),
          Long.toString(peer.getLong("hedges_won", 0)),
          Long.toString(peer.getLong("errors", 0)),
          peer.getString("why", ""));
    }
    table.lines().forEach(this::line);
  }

  /** How fast blocks came from a node; nothing if none came. */
  private static String speed(long bytesPerSecond) {
    return bytesPerSecond == 0 ? "" : Units.bytes(bytesPerSecond) + "/s";
  }
}
