package io.kvtier.tiers.node;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * The question to all nodes how much of a sequence of blocks each has. Confined to the reader that
 * asks.
 */
final class Survey implements Asker {
  private final ByteBuffer body;
  private final int count;
  private final Consumer<List<NodeRun>> finished;
  private final List<NodeRun> runs = new ArrayList<>();

  /** How many nodes have not answered. */
  private int open;

  Survey(Messages.Keys keys, Consumer<List<NodeRun>> finished) {
    body = keys.body();
    count = keys.count();
    this.finished = finished;
  }

  ByteBuffer body() {
    return body;
  }

  int count() {
    return count;
  }

  /** A number of nodes is asked. */
  void begin(int nodes) {
    open = nodes;
    end();
  }

  @Override
  public void answered(NodePeer peer, Messages.@Nullable Places places) {
    if (places != null && places.run() > 0) {
      runs.add(new NodeRun(peer, places.run(), places.memoryRun(), places.loadNs()));
    }
    open--;
    end();
  }

  private void end() {
    if (open == 0) {
      runs.sort(NodeRun.BEST_FIRST);
      finished.accept(runs);
    }
  }
}
