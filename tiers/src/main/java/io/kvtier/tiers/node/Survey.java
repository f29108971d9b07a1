package io.kvtier.tiers.node;

import io.kvtier.tiers.object.ObjectKey;
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
  private final Messages.Keys keys;
  private final ByteBuffer body;
  private final int count;
  private final Consumer<List<NodeRun>> finished;
  private final List<NodeRun> runs = new ArrayList<>();

  /** How many nodes have not answered. */
  private int open;

  Survey(Messages.Keys keys, Consumer<List<NodeRun>> finished) {
    this.keys = keys;
    body = keys.body();
    count = keys.count();
    this.finished = finished;
  }

  ByteBuffer body() {
    return body;
  }

  /** The hashes of the blocks, in the directory. */
  long[] hashes() {
    long[] hashes = new long[count];
    byte[] key = new byte[keys.keyBytes()];
    for (int i = 0; i < count; i++) {
      keys.keys().get(keys.keys().position() + i * key.length, key);
      hashes[i] = ObjectKey.of(keys.high(), keys.low(), key, key.length, keys.group()).high();
    }
    return hashes;
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
