package io.kvtier.daemon.index.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

class RetentionTableTest {
  private static final int BLOCKS = 4096;
  private static final long TICK_NS = 1L << 28;
  private static final long DAY_NS = 86_400_000_000_000L;

  private Directory directory;

  @BeforeEach
  void open() throws IOException {
    directory = new Directory(BLOCKS, 1);
    directory.setNamespace(0, 1, 0, 100);
    MemorySegment key = MemorySegment.ofArray(new long[1]);
    for (int i = 0; i < BLOCKS; i++) {
      key.set(BlockRecords.LONG, 0, i);
      assertEquals(Directory.NONE, directory.find(0, 0, 8, key, 0));
      assertEquals(i, directory.insertSought(0, 0, 8));
    }
  }

  @AfterEach
  void close() {
    directory.checkInvariants();
    directory.close();
  }

  private int expire(long nowNs) {
    return directory.retentions().expire(nowNs, directory::endRetention);
  }

  @Test
  void expire_manyAtOnce_endsSomeAtATime() {
    for (int block = 0; block < BLOCKS; block++) {
      directory.retain(block, 1000);
    }
    assertEquals(0, expire(TICK_NS - 1), "never early");
    for (int left = BLOCKS; left > 0; left -= 1024) {
      assertEquals(1024, expire(TICK_NS));
    }
    assertEquals(0, expire(TICK_NS));
    assertEquals(0, directory.retentions().count());
    assertEquals(0, directory.retentions().bytesOf(0));
  }

  @Test
  void expire_afterAStandstillLongerThanATurnOfTheWheel_missesNothing() {
    directory.retain(1, TICK_NS);
    directory.retain(2, 3 * (TICK_NS << 16));
    assertEquals(0, expire(TICK_NS));
    assertEquals(1, expire(2 * (TICK_NS << 16)));
    assertEquals(200, directory.retentions().bytesOf(0) + 100);
    assertEquals(1, expire(4 * (TICK_NS << 16)));
  }

  @Test
  @Timeout(10)
  void expire_timeBeforeTheLastOne_endsNothing() {
    directory.retain(1, 20 * TICK_NS);
    assertEquals(0, expire(10 * TICK_NS));
    assertEquals(0, expire(9 * TICK_NS));
    assertEquals(1, expire(21 * TICK_NS));
  }

  @Test
  void randomRetentions_endOnTimeAndInNoOtherOrder() {
    SplittableRandom random = new SplittableRandom(5);
    Map<Integer, Long> ends = new HashMap<>();
    long now = 0;
    for (int step = 0; step < 20_000; step++) {
      int block = random.nextInt(BLOCKS);
      switch (random.nextInt(4)) {
        case 0 -> {
          if (ends.remove(block) != null) {
            directory.endRetention(block);
          }
        }
        case 1, 2 -> {
          long end = now + 1 + random.nextLong(random.nextBoolean() ? DAY_NS : 60 * TICK_NS);
          directory.retain(block, end);
          ends.merge(block, end, Math::max);
        }
        default -> {
          now += random.nextLong(random.nextInt(50) == 0 ? DAY_NS / 4 : TICK_NS);
          long at = now;
          while (directory.retentions().expire(now, over -> ended(over, ends, at)) > 0) {
            assertTrue(directory.retentions().count() >= 0);
          }
          ends.forEach(
              (one, end) -> assertTrue(end + TICK_NS > at, "block " + one + " ended at " + end));
        }
      }
      assertEquals(ends.size(), directory.retentions().count());
    }
  }

  private void ended(int block, Map<Integer, Long> ends, long nowNs) {
    Long end = ends.remove(block);
    assertTrue(end != null && end <= nowNs, "block " + block + " ends at " + end);
    directory.endRetention(block);
  }
}
