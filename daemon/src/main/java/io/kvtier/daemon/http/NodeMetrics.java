package io.kvtier.daemon.http;

import io.prometheus.metrics.model.registry.MultiCollector;
import io.prometheus.metrics.model.snapshots.MetricSnapshots;
import io.vertx.core.json.JsonObject;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** Metrics of other nodes, from what {@code kvtier nodes} shows. Confined to the event loop. */
final class NodeMetrics implements MultiCollector {
  /** Maximum nodes with their own series: those that came first. */
  static final int NODES_MAX = 64;

  private static final String OF_THE_FIRST = ", of the first " + NODES_MAX + " nodes";

  private final Supplier<JsonObject> nodes;

  NodeMetrics(Supplier<JsonObject> nodes) {
    this.nodes = nodes;
  }

  @Override
  public MetricSnapshots collect() {
    Families out = new Families();
    all(out, nodes.get());
    return out.snapshots();
  }

  /** Adds the families of nodes; none if there are no other nodes. */
  static void all(Families out, JsonObject nodes) {
    Trouble.objects(nodes, "peers").stream()
        .filter(NodeMetrics::isAsked)
        .limit(NODES_MAX)
        .forEach(peer -> peer(out, peer));
    JsonObject blockBytes = nodes.getJsonObject("block_bytes", new JsonObject());
    for (String transport : blockBytes.fieldNames()) {
      blockBytes(out, blockBytes.getJsonObject(transport), transport);
    }
    directory(out, nodes.getJsonObject("directory"));
  }

  private static void blockBytes(Families out, JsonObject moved, String transport) {
    for (String direction : List.of("received", "sent")) {
      out.counter(
          "kvtier_node_bytes",
          "Bytes of blocks that came from other nodes or went to them, by the transport that moved"
              + " them",
          moved.getLong(direction),
          "transport",
          transport,
          "direction",
          direction);
    }
  }

  private static boolean isAsked(JsonObject peer) {
    return !List.of("self", "spare").contains(peer.getString("state"));
  }

  private static void peer(Families out, JsonObject peer) {
    String[] labels = {"node", peer.getString("name"), "address", peer.getString("address")};
    out.gauge(
        "kvtier_peer_connected",
        "Whether blocks can be read from a node: 0 or 1" + OF_THE_FIRST,
        peer.getString("state").equals("connected") ? 1 : 0,
        labels);
    out.gauge(
        "kvtier_peer_round_trip_seconds",
        "The last round trip to a node; 0 before the first" + OF_THE_FIRST,
        peer.getLong("round_trip_ns") / 1e9,
        labels);
    out.gauge(
        "kvtier_peer_speed_bytes_per_second",
        "The measured speed of a node; 0 before the first block" + OF_THE_FIRST,
        peer.getLong("bytes_per_second"),
        labels);
    count(out, "read_blocks", "Blocks that came from a node", peer, "blocks", labels);
    count(out, "read_bytes", "Bytes of the blocks that came from a node", peer, "bytes", labels);
    count(out, "pushed_blocks", "Blocks that were pushed to a node", peer, labels);
    count(out, "pushed_bytes", "Bytes of the blocks that were pushed to a node", peer, labels);
    count(out, "errors", "Fetches from a node that failed or took too long", peer, labels);
    count(
        out,
        "hedges",
        "Fetches for which a node was asked because another one was late",
        peer,
        labels);
    count(
        out,
        "hedges_won",
        "Of these, those that the node delivered before the one that was late",
        peer,
        labels);
    count(
        out,
        "stale_frames",
        "Frames of an earlier start of either side, which were ignored",
        peer,
        labels);
  }

  private static void count(
      Families out, String name, String help, JsonObject peer, String... labels) {
    count(out, name, help, peer, name, labels);
  }

  private static void count(
      Families out, String name, String help, JsonObject peer, String field, String... labels) {
    out.counter("kvtier_peer_" + name, help + OF_THE_FIRST, peer.getLong(field), labels);
  }

  private static void directory(Families out, @Nullable JsonObject directory) {
    if (directory != null) {
      level(out, directory, "nodes", "Nodes that keep parts of the directory");
      level(out, directory, "entries", "Entries in this node's part of the directory");
      level(out, directory, "bytes", "Memory of this node's part of the directory");
      out.counter(
          "kvtier_directory_displaced",
          "Entries of the directory that were lost because the table was full",
          directory.getLong("displaced"));
      out.counter(
          "kvtier_directory_gaps",
          "Lists of blocks that had to begin anew because a part was missing",
          directory.getLong("gaps"));
    }
  }

  private static void level(Families out, JsonObject directory, String field, String help) {
    out.gauge("kvtier_directory_" + field, help, directory.getLong(field));
  }
}
