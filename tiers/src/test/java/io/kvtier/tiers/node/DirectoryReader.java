package io.kvtier.tiers.node;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.directory.ChangeFeed;
import io.kvtier.tiers.directory.HolderTable;
import io.kvtier.tiers.directory.NodeDirectory;
import io.kvtier.tiers.object.BlockKey;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.nio.ByteBuffer;
import java.util.List;

/** A reader with a directory. The test plays the other nodes and the index by hand. */
final class DirectoryReader implements AutoCloseable {
  static final long SELF = 77;

  final ScriptedTransport transport = new ScriptedTransport();
  final NodeHints hints = new NodeHints(() -> transport.nowNs, Runnable::run);
  final NodeDirectory directory = new NodeDirectory(SELF, true, 1 << 20);
  final ChangeFeed feed = new ChangeFeed(() -> {});
  final NodeTier tier =
      new NodeTier(
          List.of(transport),
          new NodeReader.Options(
              "reader", SELF, () -> "", text -> text, 1_000_000_000L, 1_000_000_000L),
          hints,
          () -> 1,
          () -> {},
          TroubleLog.NONE);

  /** Finds blocks with the directory; {@code always}: with few nodes, too. */
  void use(boolean always) {
    tier.use(directory, feed, always);
  }

  /** One round, some time after the last one. */
  void work() {
    transport.nowNs += 20_000_000;
    var _ = tier.readers().getFirst().doWork();
  }

  /** Connects to nodes of some numbers; {@code to} is exclusive. */
  void connect(int from, int to) throws FrameException {
    for (int i = from; i < to; i++) {
      tier.join(new NodeAddress("node-" + i, 1));
    }
    work();
    for (ScriptedTransport.Link link : transport.links.subList(from, to)) {
      link.welcome();
    }
    work();
  }

  /** Ends the walks that were wanted so far. */
  void endWalks() {
    for (int i = 0; i < 2; i++) {
      assertTrue(feed.tell(0, ChangeFeed.WALKED));
      work();
      work();
    }
  }

  /** The block of a key, with no place yet. */
  static Transfer block(int key) {
    Transfer block = new Transfer(0);
    block.namespaceHigh = 1;
    block.namespaceLow = 2;
    block.keyBytes = 8;
    ByteBuffer.wrap(block.key).putLong(key);
    return block;
  }

  static ObjectKey key(int key) {
    return ObjectKey.of(block(key));
  }

  static long hash(int key) {
    return key(key).high() & HolderTable.HASH_BITS;
  }

  /** The first key whose partition another node owns. */
  int keyOfOthers() {
    int key = 0;
    while (directory.owner(hash(key)) == SELF) {
      key++;
    }
    return key;
  }

  /** A lookup asks for a block. */
  void probe(int key) {
    Transfer block = block(key);
    BlockKey name = BlockKey.of(block);
    assertTrue(hints.probe(key(key), name, null));
  }

  @Override
  public void close() {
    directory.close();
  }
}
