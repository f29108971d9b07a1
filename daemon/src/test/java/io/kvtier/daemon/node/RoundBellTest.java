package io.kvtier.daemon.node;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class RoundBellTest {
  private int rings;
  private long nowNs;
  private final RoundBell bell = new RoundBell(() -> rings++, () -> nowNs);

  @Test
  void newsOfSeveralRounds_ringsOnce_whenTheLoopHasNothingMoreToDo() {
    bell.ring(true);
    assertEquals(0, rings);
    bell.run();
    bell.ring(false);
    bell.run();
    bell.ring(false);
    assertEquals(0, rings);
    bell.ring(true);
    bell.ring(true);
    assertEquals(1, rings);
    bell.run();
    bell.ring(true);
    assertEquals(2, rings);
  }

  @Test
  void muchNews_ringsAtTheEndOfTheRound() {
    for (int i = 1; i < RoundBell.NEWS_MAX; i++) {
      bell.run();
    }
    bell.ring(false);
    assertEquals(0, rings);
    bell.run();
    assertEquals(0, rings);
    bell.ring(false);
    bell.ring(false);
    assertEquals(1, rings);
  }

  @Test
  void newsThatHasWaited_ringsAlthoughTheLoopHasMoreToDo() {
    bell.run();
    nowNs += RoundBell.WAIT_NS_MAX - 1;
    bell.run();
    bell.ring(false);
    assertEquals(0, rings);
    nowNs++;
    bell.ring(false);
    assertEquals(1, rings);
    bell.run();
    bell.ring(false);
    assertEquals(1, rings, "it has not waited");
  }

  @Test
  void newsThatComesWhileItRings_isNotLost() {
    RoundBell[] asked = new RoundBell[1];
    asked[0] =
        new RoundBell(
            () -> {
              rings++;
              if (rings == 1) {
                asked[0].run();
              }
            },
            () -> nowNs);
    asked[0].run();
    asked[0].ring(true);
    asked[0].ring(true);
    assertEquals(2, rings);
  }
}
