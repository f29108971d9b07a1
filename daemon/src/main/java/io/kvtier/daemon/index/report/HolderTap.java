package io.kvtier.daemon.index.report;

import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.protocol.Protocol;
import io.kvtier.tiers.directory.ChangeFeed;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.transfer.Transfer;
import java.util.Map;
import java.util.function.IntUnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * Tells a {@link ChangeFeed} which blocks come to host memory and leave it. When the reader asks
 * for everything, it also walks over the directory, some blocks a round. Confined to the index.
 */
public final class HolderTap implements BlockEvents {
  private static final int BLOCKS_PER_ROUND = 256;

  private final ChangeFeed feed;
  private final Directory directory;
  private final Namespaces namespaces;
  private final byte[] key = new byte[Protocol.KEY_BYTES_MAX];
  private int walksDone;
  private boolean isWalking;
  private int cursor;

  public HolderTap(ChangeFeed feed, Directory directory, Namespaces namespaces) {
    this.feed = feed;
    this.directory = directory;
    this.namespaces = namespaces;
  }

  @Override
  public void stored(int tiers, int block) {
    if (isTold(tiers)) {
      var _ = tell(block, ChangeFeed.CAME);
    }
  }

  @Override
  public void removed(int tiers, int block) {
    if (isTold(tiers)) {
      var _ = tell(block, ChangeFeed.LEFT);
    }
  }

  @Override
  public void removedSought(int tiers, int namespaceId, int group, int keyBytes) {
    if (isTold(tiers)) {
      directory.copySought(key);
      tellLeft(namespaces.byId(namespaceId), keyBytes, group);
    }
  }

  @Override
  public void removedNamed(int tiers, int namespaceId, Transfer named) {
    if (isTold(tiers)) {
      System.arraycopy(named.key, 0, key, 0, key.length);
      tellLeft(namespaces.byId(namespaceId), named.keyBytes, named.group);
    }
  }

  /** Does nothing: other nodes know namespaces by their fingerprints. */
  @Override
  public void name(int namespaceId, String name, Map<String, String> properties) {}

  private boolean isTold(int tiers) {
    return (tiers & HOST) != 0 && feed.isOpen();
  }

  private void tellLeft(Namespaces.@Nullable Namespace namespace, int keyBytes, int group) {
    if (namespace != null) {
      var _ = feed.tell(hash(namespace, keyBytes, group), ChangeFeed.LEFT);
    }
  }

  private boolean tell(int block, int kind) {
    directory.copyKey(block, key);
    Namespaces.Namespace namespace = namespaces.of(directory, block);
    return feed.tell(hash(namespace, directory.keyBytes(block), directory.group(block)), kind);
  }

  private long hash(Namespaces.Namespace namespace, int keyBytes, int group) {
    return ObjectKey.of(namespace.high(), namespace.low(), key, keyBytes, group).high();
  }

  // ---- walks

  /** Whether {@link #walk} would do something now. */
  public boolean isToWalk() {
    return (isWalking || walksDone != feed.walksWanted()) && feed.hasRoomForWalk();
  }

  /**
   * Goes on with a walk, if one is wanted.
   *
   * @param tiersOf in which tiers a block is, a bit each
   */
  public void walk(IntUnaryOperator tiersOf) {
    if (!isToWalk()) {
      return;
    }
    if (!isWalking) {
      isWalking = true;
      cursor = 0;
    }
    int end = directory.highWater();
    for (int looks = 0; looks < BLOCKS_PER_ROUND && cursor < end; looks++) {
      boolean isThere =
          directory.isUsed(cursor)
              && directory.isLinked(cursor)
              && (tiersOf.applyAsInt(cursor) & HOST) != 0;
      if (isThere && !tell(cursor, ChangeFeed.FOUND)) {
        return;
      }
      cursor++;
    }
    if (cursor >= end && feed.tell(0, ChangeFeed.WALKED)) {
      isWalking = false;
      walksDone++;
    }
  }
}
