package io.kvtier.tiers.directory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashSet;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

final class NodeDirectoryTest {
  private static final long SELF = 11;
  private static final long OTHER = 22;
  private static final long THIRD = 33;

  private static final Object LINK = "a link";

  private final NodeDirectory directory = new NodeDirectory(SELF, true, 1 << 20);

  @BeforeEach
  void open() {
    directory.open();
  }

  @AfterEach
  void close() {
    directory.close();
  }

  private static long came(long hash) {
    return (hash & HolderTable.HASH_BITS) | ChangeFeed.CAME;
  }

  private static long left(long hash) {
    return (hash & HolderTable.HASH_BITS) | ChangeFeed.LEFT;
  }

  private Set<Long> holders(long hash) {
    long[] holders = new long[NodeDirectory.HOLDERS_MAX];
    int count = directory.find(hash, holders);
    Set<Long> all = new HashSet<>();
    for (int i = 0; i < count; i++) {
      all.add(holders[i]);
    }
    return all;
  }

  private void sweep() {
    for (int i = 0; i < 3 * directory.buckets(); i += 1000) {
      directory.advance(1000);
    }
  }

  @Test
  void directory_beforeItIsOpen_takesNoMemory_andAnAnnouncementOpensIt() {
    try (NodeDirectory closed = new NodeDirectory(SELF, true, 1 << 20)) {
      assertFalse(closed.isOpen());
      assertEquals(0, closed.bytes());
      assertEquals(0, closed.nodes());
      long hash = 5L << 40;
      assertEquals(0, closed.find(hash, new long[NodeDirectory.HOLDERS_MAX]));
      assertTrue(closed.note(OTHER, LINK, 0, new long[] {came(hash)}));
      assertTrue(closed.isOpen());
      assertEquals(1, closed.find(hash, new long[NodeDirectory.HOLDERS_MAX]));
      assertEquals(1 << 20, closed.bytes());
      assertEquals(1, closed.nodes());
    }
  }

  @Test
  void close_twice_isOnce() {
    directory.close();
    directory.close();
    assertFalse(directory.isOpen());
    assertEquals(0, directory.bytes());
  }

  @Test
  void note_inOrder_isFound_andWhatLeftIsNot() {
    long hash = 5L << 40;
    assertTrue(directory.note(OTHER, LINK, 0, new long[] {came(hash)}));
    assertTrue(directory.note(THIRD, LINK, 0, new long[] {came(hash)}));
    assertEquals(Set.of(OTHER, THIRD), holders(hash));
    assertTrue(directory.note(OTHER, LINK, 1, new long[] {left(hash)}));
    assertEquals(Set.of(THIRD), holders(hash));
    directory.noteOwn(came(hash));
    assertEquals(Set.of(THIRD, SELF), holders(hash));
  }

  @Test
  void note_withAGap_isRefused_untilTheNodeBeginsAnew() {
    long lost = 6L << 40;
    long hash = 7L << 40;
    assertTrue(directory.note(OTHER, LINK, 0, new long[] {came(lost)}));
    assertFalse(directory.note(OTHER, LINK, 2, new long[] {came(hash)}));
    assertEquals(Set.of(), holders(hash));
    assertEquals(1, directory.gaps());
    assertFalse(directory.note(THIRD, LINK, 1, new long[] {came(hash)}));
    // The new list says nothing of a block that left meanwhile.
    assertTrue(directory.note(OTHER, LINK, 0, new long[] {came(hash)}));
    assertEquals(Set.of(OTHER), holders(hash));
    assertEquals(Set.of(), holders(lost));
  }

  @Test
  void end_ofAnEarlierConnection_leavesTheListOfTheNext() {
    long hash = 8L << 40;
    assertTrue(directory.note(OTHER, LINK, 0, new long[] {came(hash)}));
    assertTrue(directory.note(OTHER, "the next link", 0, new long[] {came(hash)}));
    directory.end(OTHER, LINK);
    assertEquals(Set.of(OTHER), holders(hash));
    assertFalse(directory.note(OTHER, LINK, 1, new long[] {left(hash)}));
    assertTrue(directory.note(OTHER, "the next link", 1, new long[] {}));
  }

  @Test
  void end_forgetsTheNodeAtOnce_andItsEntriesLater() {
    Random random = new Random(1);
    long[] entries = random.longs(2000).map(NodeDirectoryTest::came).toArray();
    assertTrue(directory.note(OTHER, LINK, 0, entries));
    directory.end(OTHER, LINK);
    assertEquals(Set.of(), holders(entries[0]));
    assertEquals(2000, directory.size());
    // A node that comes meanwhile does not inherit the entries.
    assertTrue(directory.note(THIRD, LINK, 0, new long[] {}));
    assertEquals(Set.of(), holders(entries[0]));
    sweep();
    assertEquals(0, directory.size());
  }

  @Test
  void numbers_ofManyStarts_areUsedAgain() {
    try (NodeDirectory small = new NodeDirectory(SELF, true, 1024)) {
      small.open();
      for (int start = 1; start < 100_000; start++) {
        assertTrue(small.note(1000 + start, LINK, 0, new long[] {came((long) start << 20)}));
        small.end(1000 + start, LINK);
        small.advance(small.buckets());
      }
    }
  }
}
