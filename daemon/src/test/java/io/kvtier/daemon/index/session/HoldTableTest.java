package io.kvtier.daemon.index.session;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class HoldTableTest {
  private final HoldTable.Holder holder = new HoldTable.Holder();

  @Test
  void find_endedHold_none_alsoWhenItsPlaceIsUsedAgain() {
    HoldTable holds = new HoldTable(1);
    int first = holds.take(HoldTable.LEASE, 5, holder, 0);
    long id = holds.id(first);
    assertEquals(first, holds.find(id, HoldTable.LEASE, holder));
    holds.free(first, holder);
    assertEquals(HoldTable.NONE, holds.find(id, HoldTable.LEASE, holder));
    int second = holds.take(HoldTable.LEASE, 6, holder, 0);
    assertEquals(first, second);
    assertEquals(HoldTable.NONE, holds.find(id, HoldTable.LEASE, holder));
  }

  @Test
  void find_otherKindOtherSessionOrNonsense_none() {
    HoldTable holds = new HoldTable(4);
    int hold = holds.take(HoldTable.LEASE, 5, holder, 0);
    HoldTable.Holder other = new HoldTable.Holder();
    other.index = 1;
    assertEquals(HoldTable.NONE, holds.find(holds.id(hold), HoldTable.RESERVATION, holder));
    assertEquals(HoldTable.NONE, holds.find(holds.id(hold), HoldTable.LEASE, other));
    for (long nonsense : new long[] {0, -1, Long.MIN_VALUE, Long.MAX_VALUE, 5, 1L << 32}) {
      assertEquals(HoldTable.NONE, holds.find(nonsense, HoldTable.LEASE, holder));
    }
  }

  @Test
  void take_poolEmpty_none() {
    HoldTable holds = new HoldTable(2);
    holds.take(HoldTable.PIN, 1, holder, 0);
    holds.take(HoldTable.PIN, 1, holder, 0);
    assertEquals(HoldTable.NONE, holds.take(HoldTable.PIN, 1, holder, 0));
  }

  @Test
  void expired_manyNotDueInTheSameBucket_areNotLookedAtForEach() {
    int many = 100_000;
    HoldTable holds = new HoldTable(2 * many);
    long now = 1L << 40;
    holds.expired(now);
    for (int i = 0; i < many; i++) {
      holds.take(HoldTable.LEASE, i, holder, now + 1_000_000_000L);
    }
    for (int i = 0; i < many; i++) {
      holds.take(HoldTable.LEASE, i, holder, now + 1_000_000_000L + (1024L << 26));
    }
    assertTimeoutPreemptively(
        Duration.ofSeconds(5),
        () -> {
          long later = now + 1_200_000_000L;
          for (int hold = holds.expired(later);
              hold != HoldTable.NONE;
              hold = holds.expired(later)) {
            holds.free(hold, holder);
          }
        });
    assertEquals(many, holds.count(HoldTable.LEASE));
  }

  @Test
  void take_leaseThatHasEndedAlready_expiresSoon() {
    HoldTable holds = new HoldTable(4);
    long now = 1L << 40;
    holds.expired(now);
    int late = holds.take(HoldTable.LEASE, 1, holder, now - 1_000_000_000L);
    assertEquals(late, holds.expired(now + (2L << 26)));
  }

  @Test
  void pinOf_ofManyHolds_isTheHoldersOwn() {
    HoldTable holds = new HoldTable(64);
    HoldTable.Holder other = new HoldTable.Holder();
    other.index = 1;
    int mine = holds.take(HoldTable.PIN, 7, holder, 0);
    int theirs = holds.take(HoldTable.PIN, 7, other, 0);
    holds.take(HoldTable.RESERVATION, 7, holder, 0);
    assertEquals(mine, holds.pinOf(7, holder));
    assertEquals(theirs, holds.pinOf(7, other));
    assertEquals(HoldTable.NONE, holds.pinOf(8, holder));
    assertEquals(true, holds.pinAgain(mine, holder));
    assertEquals(2, holder.times(HoldTable.PIN));
    assertEquals(1, other.times(HoldTable.PIN));
    assertEquals(true, holds.unpinOnce(mine, holder));
    assertEquals(1, holder.times(HoldTable.PIN));
    assertEquals(false, holds.unpinOnce(mine, holder));
    assertEquals(true, holds.pinAgain(mine, holder));
    holds.free(mine, holder);
    assertEquals(0, holder.times(HoldTable.PIN), "with all its times");
    assertEquals(1, holder.times(HoldTable.RESERVATION));
    assertEquals(HoldTable.NONE, holds.pinOf(7, holder));
    assertEquals(theirs, holds.anyPinOf(7));
    holds.free(theirs, other);
    assertEquals(HoldTable.NONE, holds.anyPinOf(7));
  }

  @Test
  void free_twice_isRefused() {
    HoldTable holds = new HoldTable(2);
    int hold = holds.take(HoldTable.PIN, 1, holder, 0);
    holds.free(hold, holder);
    assertThrows(IllegalStateException.class, () -> holds.free(hold, holder));
  }

  @Test
  void expired_everyLeaseEndsOnce_neverEarly_atMostATickLate() {
    SplittableRandom random = new SplittableRandom(3);
    HoldTable holds = new HoldTable(512);
    Map<Integer, Long> ends = new HashMap<>();
    long now = 1L << 40;
    holds.expired(now);
    for (int step = 0; step < 20_000; step++) {
      now += random.nextInt(40_000_000);
      if (random.nextInt(500) == 0) {
        now += random.nextLong(200_000_000_000L); // a machine that slept
      }
      if (random.nextBoolean() && ends.size() < 512) {
        long end = now + 1 + random.nextLong(150_000_000_000L);
        ends.put(holds.take(HoldTable.LEASE, step, holder, end), end);
      }
      for (int hold = holds.expired(now); hold != HoldTable.NONE; hold = holds.expired(now)) {
        Long end = ends.remove(hold);
        assertEquals(true, end != null && end <= now);
        holds.free(hold, holder);
      }
      long tooLate = now - (2L << 26);
      ends.forEach(
          (hold, end) -> assertEquals(true, end > tooLate, "lease " + hold + " is overdue"));
    }
  }
}
