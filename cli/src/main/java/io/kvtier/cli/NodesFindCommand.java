package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import io.kvtier.client.CacheClient;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.NodesResult;
import io.kvtier.client.RemoteClient;
import io.kvtier.client.TextResult;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.concurrent.locks.LockSupport;
import picocli.CommandLine.Command;

/** Shows which nodes of the cluster have most of a sequence of blocks. */
@Command(
    name = "find",
    description = {
      "Shows which nodes of the cluster have most of a sequence of blocks, as routers ask for it: how"
          + " many blocks from the first each node has, in any tier and in host memory, and how long"
          + " it would take to bring them to its host memory.",
      "Changes nothing: it counts neither as a lookup nor as a use of the blocks."
    },
    footer = {
      "",
      "Exit code: 0 when a node has the first block, 1 when none has it, 3 when the nodes have not"
          + " answered in time."
    })
final class NodesFindCommand extends KeyedCommand {
  private static final int NODES_MAX = 64;
  private static final long AGAIN_NS = 10_000_000;

  /** Over the socket, the daemon answers PENDING until the other nodes have answered. */
  @Override
  int run(KvtierClient client) {
    StringBuilder command =
        new StringBuilder("nodes find ")
            .append(HexFormat.of().formatHex(namespaceName().getBytes(StandardCharsets.UTF_8)))
            .append(' ')
            .append(group());
    var _ = keys();
    keysHex().forEach(key -> command.append(' ').append(key));
    if (command.length() > Protocol.TEXT_BYTES_MAX) {
      throw new Failure(
          Failure.USAGE,
          keysHex().size()
              + " keys are too many for a command over the socket: give fewer keys, or use --address,"
              + " which takes "
              + Protocol.KEYS_MAX);
    }
    long endNs = System.nanoTime() + timeoutNs();
    TextResult answer = client.blocking().admin(command.toString());
    while (answer.status() == Status.PENDING && System.nanoTime() - endNs < 0) {
      LockSupport.parkNanos(AGAIN_NS);
      answer = client.blocking().admin(command.toString());
    }
    return show(parse(found(answer)).get("nodes").asArray());
  }

  /** The text of an answer. Nodes that have not answered have not said that they have nothing. */
  static String found(TextResult answer) {
    if (answer.status() == Status.PENDING) {
      throw new Failure(
          Failure.NO_DAEMON, "the nodes have not answered in time: give a longer --timeout");
    }
    return answered(answer);
  }

  @Override
  int run(CacheClient client) {
    if (!(client instanceof RemoteClient remote)) {
      throw new IllegalStateException("a client of " + client.place());
    }
    NodesResult result = remote.findNodes(namespace(client), keys(), NODES_MAX, options()).join();
    requireDone(result.status(), "the search", result.detail());
    JsonArray nodes = new JsonArray();
    for (NodesResult.NodeHold node : result.nodes()) {
      nodes.add(
          new JsonObject()
              .add("node", node.name())
              .add("address", node.address())
              .add("self", node.isSelf())
              .add("run", node.run())
              .add("memory_run", node.memoryRun())
              .add("load_time_ns", node.loadTimeNs()));
    }
    return show(nodes);
  }

  private int show(JsonArray nodes) {
    if (isJson()) {
      line(new JsonObject().add("nodes", nodes).toString());
    } else if (nodes.isEmpty()) {
      line("no node has the first block");
    } else {
      table(nodes);
    }
    return nodes.isEmpty() ? Failure.NEGATIVE : 0;
  }

  private void table(JsonArray nodes) {
    Table table = new Table("NODE", "ADDRESS", ">RUN", ">IN MEMORY", ">LOAD TIME");
    for (JsonValue each : nodes) {
      JsonObject node = each.asObject();
      table.row(
          node.getString("node", "") + (node.getBoolean("self", false) ? " (asked)" : ""),
          node.getString("address", ""),
          Integer.toString(node.getInt("run", 0)),
          Integer.toString(node.getInt("memory_run", 0)),
          Units.nanoseconds(node.getLong("load_time_ns", 0)));
    }
    table.lines().forEach(this::line);
  }
}
