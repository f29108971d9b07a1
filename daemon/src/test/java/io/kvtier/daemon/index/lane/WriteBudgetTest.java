package io.kvtier.daemon.index.lane;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class WriteBudgetTest {
  private static final long HOUR_NS = 3_600_000_000_000L;

  @Test
  void noLimit_isAlwaysOpen() {
    WriteBudget budget = new WriteBudget(0);
    budget.spend(Long.MAX_VALUE);
    assertTrue(budget.isOpen());
  }

  @Test
  void day_spentHourByHour_isNotMoreThanThat() {
    long perDay = 24_000;
    WriteBudget budget = new WriteBudget(perDay);
    long spent = 0;
    for (long now = 0; now <= 24 * HOUR_NS; now += HOUR_NS / 60) {
      budget.advance(now);
      while (budget.isOpen()) {
        budget.spend(100);
        spent += 100;
      }
    }
    // The first hour's share was there at once, and the last block may go beyond.
    assertTrue(spent >= perDay && spent <= perDay + perDay / 24 + 100, spent + " bytes");
  }

  @Test
  void unused_isKeptForAnHourOnly() {
    WriteBudget budget = new WriteBudget(24_000);
    budget.advance(0);
    budget.advance(100 * HOUR_NS);
    budget.spend(1_000);
    assertFalse(budget.isOpen());
    budget.advance(100 * HOUR_NS + HOUR_NS / 2);
    assertTrue(budget.isOpen());
  }

  @Test
  void change_ofWhatIsSpent_leavesItSpent() {
    WriteBudget budget = new WriteBudget(24_000);
    budget.advance(0);
    budget.spend(1_000);
    budget.change(240_000);
    assertFalse(budget.isOpen());
    budget.advance(HOUR_NS / 10_000);
    assertTrue(budget.isOpen());
    budget.change(0);
    assertTrue(budget.isOpen());
  }

  @Test
  void change_ofWhatIsHalfSpent_leavesHalfOfTheOther() {
    WriteBudget budget = new WriteBudget(24_000);
    budget.spend(500);
    budget.change(48_000);
    budget.spend(999);
    assertTrue(budget.isOpen());
    budget.spend(2);
    assertFalse(budget.isOpen());
  }

  @Test
  void clock_goesBack_givesNothing() {
    WriteBudget budget = new WriteBudget(24_000);
    budget.advance(10 * HOUR_NS);
    budget.spend(1_000);
    budget.advance(0);
    assertFalse(budget.isOpen());
  }
}
