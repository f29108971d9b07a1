package io.kvtier.tiers.object.janitor;

import io.kvtier.tiers.object.ObjectNames;
import io.kvtier.tiers.object.StoredObject;
import io.kvtier.tiers.transfer.Transfer;
import java.util.ArrayList;
import java.util.List;

/**
 * A look at all blocks below a prefix, page by page. What else is there is counted and left alone:
 * only what has a name as kvtier makes them is handed on.
 */
final class BlockWalk {
  /** What is done with the blocks of a page. */
  interface BlockTaker {
    void take(List<StoredObject> blocks) throws RunEnd;
  }

  private BlockWalk() {}

  static void walk(JanitorCalls calls, String prefix, Tally tally, BlockTaker taker) throws RunEnd {
    Transfer parsed = new Transfer(0);
    tally.beginPass();
    calls.list(
        prefix,
        objects -> {
          List<StoredObject> blocks = new ArrayList<>(objects.size());
          for (StoredObject object : objects) {
            if (ObjectNames.readBlock(object.name(), parsed)) {
              tally.add(JanitorCount.SEEN, 1, object.bytes());
              blocks.add(object);
            } else if (object.name().startsWith(ReservedNames.ALL)) {
              tally.add(JanitorCount.RESERVED, 1, object.bytes());
            } else {
              tally.add(JanitorCount.FOREIGN, 1, object.bytes());
              tally.foreign(object.name());
            }
          }
          taker.take(blocks);
          tally.publish();
        });
  }

  static List<String> names(List<StoredObject> objects) {
    return objects.stream().map(StoredObject::name).toList();
  }

  static long bytes(List<StoredObject> objects) {
    return objects.stream().mapToLong(StoredObject::bytes).sum();
  }
}
