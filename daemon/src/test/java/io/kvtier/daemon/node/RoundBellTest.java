package io.kvtier.daemon.node;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class RoundBellTest {
  private int rings;
  private final RoundBell bell = new RoundBell(() -> rings++);

  @Test
  void wholeRound_ringsOnce() {
    bell.run();
    bell.run();
    assertEquals(0, rings);
    bell.ring();
    bell.ring();
    assertEquals(1, rings);
    bell.run();
    bell.ring();
    assertEquals(2, rings);
  }

  @Test
  void whatIsAskedForWhileItRings_isNotLost() {
    RoundBell[] asked = new RoundBell[1];
    asked[0] =
        new RoundBell(() -> {
          rings++;
          if (rings == 1) {
            asked[0].run();
          }
        });
    asked[0].run();
    asked[0].ring();
    asked[0].ring();
    assertEquals(2, rings);
  }
}
