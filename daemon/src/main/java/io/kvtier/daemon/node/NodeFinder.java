package io.kvtier.daemon.node;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.IndexAgent;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.OwnFind;
import io.kvtier.protocol.Protocol;
import io.kvtier.tiers.node.Messages;
import io.kvtier.tiers.node.NodeRun;
import io.kvtier.tiers.node.NodeTier;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Finds out how much of a sequence of blocks each node has, for routers that choose the node for a
 * request: asks the index of this node, then all nodes that it reads from. It counts neither as a
 * lookup nor as a use of the blocks. For any thread.
 */
public final class NodeFinder {
  private static final Comparator<NodeHold> BEST_FIRST =
      Comparator.comparingInt(NodeHold::run).reversed().thenComparingLong(NodeHold::loadNs);

  /**
   * Blocks of one namespace, in the order in which they follow each other.
   *
   * @param namespace finds the namespace, on the index's thread
   */
  public record Sought(
      Function<Namespaces, Namespaces.@Nullable Namespace> namespace,
      int group,
      List<byte[]> keys) {
    /** The highest group. */
    public static final int GROUP_MAX = 0xffff;

    /**
     * Checks the limits.
     *
     * @throws IllegalArgumentException saying what was expected
     */
    public Sought {
      if (keys.isEmpty() || keys.size() > Protocol.KEYS_MAX) {
        throw new IllegalArgumentException(
            keys.size() + " keys, expected 1 to " + Protocol.KEYS_MAX);
      }
      int bytes = keys.getFirst().length;
      for (byte[] key : keys) {
        if (key.length < 1 || key.length > Protocol.KEY_BYTES_MAX || key.length != bytes) {
          throw new IllegalArgumentException(
              "a key has "
                  + key.length
                  + " bytes, the first has "
                  + bytes
                  + ", expected one length of 1 to "
                  + Protocol.KEY_BYTES_MAX);
        }
      }
      if (group < 0 || group > GROUP_MAX) {
        throw new IllegalArgumentException(
            "the group is " + group + ", expected 0 to " + GROUP_MAX);
      }
      keys = List.copyOf(keys);
    }

    /**
     * Blocks that an operator names.
     *
     * @param name of the namespace
     * @param keys in hexadecimal
     * @throws IllegalArgumentException saying what was expected
     */
    public static Sought ofOperator(String name, int group, List<String> keys) {
      return new Sought(
          namespaces -> namespaces.byOperator(Grant.NO_TENANT, name),
          group,
          keys.stream().map(HexFormat.of()::parseHex).toList());
    }

    int keyBytes() {
      return keys.getFirst().length;
    }

    ByteBuffer packed() {
      ByteBuffer packed = ByteBuffer.allocate(keys.size() * keyBytes());
      keys.forEach(packed::put);
      return packed.flip();
    }
  }

  /** The outcome of a search. */
  public sealed interface Answer {
    /**
     * The nodes that have at least the first block.
     *
     * @param nodes the longest run first, then the one that is loaded soonest
     */
    record Found(List<NodeHold> nodes) implements Answer {
      /** As JSON, with at most a number of nodes. */
      public JsonObject json(int nodesMax) {
        JsonArray all = new JsonArray();
        nodes.stream().limit(nodesMax).map(NodeHold::json).forEach(all::add);
        return new JsonObject().put("nodes", all);
      }
    }

    /** This node does not know the namespace. */
    record NoNamespace() implements Answer {}

    /** Too many such questions are under way. */
    record Busy() implements Answer {}
  }

  /**
   * How much of the sequence a node has.
   *
   * @param name of the node, as it says
   * @param address where it serves other nodes; empty if it serves none
   * @param isSelf whether it is this node
   * @param run how many blocks from the first it has, in memory or in lower tiers
   * @param memoryRun how many blocks from the first it has in memory
   * @param loadNs how long it would take to bring the run to memory, as the node estimates
   */
  public record NodeHold(
      String name, String address, boolean isSelf, int run, int memoryRun, long loadNs) {
    private static NodeHold of(NodeRun run) {
      return new NodeHold(
          run.peer().name(),
          run.peer().address().toString(),
          false,
          run.run(),
          run.memoryRun(),
          run.loadNs());
    }

    private JsonObject json() {
      return new JsonObject()
          .put("node", name)
          .put("address", address)
          .put("self", isSelf)
          .put("run", run)
          .put("memory_run", memoryRun)
          .put("load_time_ns", loadNs);
    }
  }

  private final String name;
  private final String address;
  private final @Nullable NodeTier others;
  private final IndexAgent index;
  private final Runnable bell;

  /**
   * A finder.
   *
   * @param name of this node
   * @param address where it serves other nodes; empty if it serves none
   * @param others null if it reads from none
   * @param bell wakes the index
   */
  public NodeFinder(
      String name, String address, @Nullable NodeTier others, IndexAgent index, Runnable bell) {
    this.name = name;
    this.address = address;
    this.others = others;
    this.index = index;
    this.bell = bell;
  }

  /**
   * Asks all nodes.
   *
   * @param answer takes the answer once, on any thread, after nodes.ask_timeout at the latest; it
   *     must neither block nor fail
   */
  public void find(Sought sought, Consumer<Answer> answer) {
    ByteBuffer packed = sought.packed();
    OwnFind own =
        new OwnFind(
            sought.namespace(),
            sought.group(),
            sought.keyBytes(),
            sought.keys().size(),
            IndexKeys.of(sought.keyBytes(), sought.keys().size(), packed.duplicate()),
            here -> {
              if (here == null) {
                answer.accept(new Answer.NoNamespace());
              } else {
                askOthers(sought, packed, here, answer);
              }
            });
    if (!index.offerFind(own)) {
      answer.accept(new Answer.Busy());
    }
    bell.run();
  }

  private void askOthers(
      Sought sought, ByteBuffer packed, OwnFind.Answer here, Consumer<Answer> answer) {
    List<NodeHold> holds = new ArrayList<>();
    NodeHold own = own(here.found());
    if (own.run > 0) {
      holds.add(own);
    }
    if (others == null) {
      answer.accept(new Answer.Found(holds));
      return;
    }
    Messages.Keys keys =
        new Messages.Keys(
            here.high(),
            here.low(),
            sought.group(),
            sought.keyBytes(),
            sought.keys().size(),
            0,
            packed);
    boolean isTaken =
        others.find(
            keys,
            runs -> {
              runs.forEach(run -> holds.add(NodeHold.of(run)));
              holds.sort(BEST_FIRST);
              answer.accept(new Answer.Found(List.copyOf(holds)));
            });
    if (!isTaken) {
      answer.accept(new Answer.Busy());
    }
  }

  private NodeHold own(NodeCall.Found found) {
    ByteBuffer places = found.places();
    int run = 0;
    while (run < places.limit() && places.get(run) != NodeCall.ABSENT) {
      run++;
    }
    int memoryRun = 0;
    while (memoryRun < run && places.get(memoryRun) == NodeCall.FIRST) {
      memoryRun++;
    }
    return new NodeHold(name, address, true, run, memoryRun, found.loadNs());
  }
}
