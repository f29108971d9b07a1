package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class SpinJudgeTest {
  private final SpinJudge judge = new SpinJudge();

  /** Asks so many times, and loses whenever it spins; how often it did. */
  private int spinsOf(int times) {
    int spins = 0;
    for (int i = 0; i < times; i++) {
      if (judge.isWorthIt()) {
        spins++;
        judge.lost();
      }
    }
    return spins;
  }

  @Test
  void isWorthIt_workThatNeverComesInTime_isTriedEveryFourthTime() {
    assertTrue(judge.isWorthIt());
    spinsOf(100);
    assertEquals(25, spinsOf(100));
  }

  @Test
  void isWorthIt_workThatComesAgain_isSpunForAtOnce() {
    spinsOf(100);
    assertFalse(judge.isWorthIt());
    judge.won();
    assertTrue(judge.isWorthIt());
    assertTrue(judge.isWorthIt());
  }

  @Test
  void isWorthIt_oneSuccessInThree_alwaysIs() {
    for (int i = 0; i < 300; i++) {
      assertTrue(judge.isWorthIt());
      if (i % 3 == 0) {
        judge.won();
      } else {
        judge.lost();
      }
    }
  }

  @Test
  void isWorthIt_whileOthersNeedTheProcessor_isNotTried_forAWhile() {
    judge.won();
    judge.displaced();
    assertEquals(0, spinsOf(256));
    assertEquals(25, spinsOf(100));
    judge.won();
    assertTrue(judge.isWorthIt());
  }

  @Test
  void isWorthIt_afterALongSuccess_isGivenUpSoon() {
    for (int i = 0; i < 1000; i++) {
      judge.won();
    }
    spinsOf(16);
    assertEquals(4, spinsOf(16));
  }
}
