package io.kvtier.tiers.directory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

final class ChangeFeedTest {
  private final AtomicInteger rung = new AtomicInteger();
  private final ChangeFeed feed = new ChangeFeed(rung::incrementAndGet);

  private int fill(int kind) {
    int told = 0;
    while (feed.tell((told + 1L) << 16, kind)) {
      told++;
    }
    return told;
  }

  @Test
  void entries_comeInOrder_withWhatHappened() {
    assertEquals(0, feed.poll());
    assertTrue(feed.tell(5L << 16 | 99, ChangeFeed.CAME));
    assertTrue(feed.tell(6L << 16, ChangeFeed.LEFT));
    long first = feed.poll();
    assertEquals(5L << 16, first & HolderTable.HASH_BITS);
    assertEquals(ChangeFeed.CAME, ChangeFeed.kindOf(first));
    assertEquals(ChangeFeed.LEFT, ChangeFeed.kindOf(feed.poll()));
    assertEquals(0, feed.poll());
  }

  @Test
  void walk_leavesHalfToChanges_andGoesOnWhenThereIsRoom() {
    int found = fill(ChangeFeed.FOUND);
    assertFalse(feed.hasRoomForWalk());
    assertFalse(feed.takeLost(), "a walk that waits loses nothing");
    assertEquals(found, fill(ChangeFeed.CAME));
    assertTrue(feed.takeLost());
    assertFalse(feed.takeLost());
    assertEquals(0, rung.get());
    int taken = 0;
    while (!feed.hasRoomForWalk()) {
      var _ = feed.poll();
      taken++;
    }
    assertEquals(found + 1, taken);
    assertEquals(1, rung.get());
    feed.walk();
    assertEquals(2, rung.get());
    assertEquals(1, feed.walksWanted());
  }
}
