package io.kvtier.daemon.index.lane;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class FenceTest {
  private static final long TURN_NS = 5_000_000_000L;

  private final Fence fence = new Fence();

  private void fail(int times, long nowNs) {
    for (int i = 0; i < times; i++) {
      fence.failed(nowNs, "full");
    }
  }

  @Test
  void errorsInARow_close_oneSuccessBetweenDoesNot() {
    fail(7, 0);
    fence.succeeded();
    fail(7, 0);
    assertTrue(fence.isOpen());
    fail(1, 0);
    assertFalse(fence.isOpen());
    assertFalse(fence.isGivenUp());
  }

  @Test
  void anError_beforeTheFenceCloses_isToldOfForAWhile_alsoWhenOthersSucceed() {
    assertEquals("", fence.failure(0));
    fail(1, 0);
    assertTrue(fence.isOpen());
    assertEquals("full", fence.failure(1_000_000_000L));
    fence.succeeded();
    assertEquals("full", fence.failure(1_000_000_000L), "on a full device some succeed");
    assertEquals("", fence.cause());
    assertEquals("full", fence.failure(9_999_999_999L));
    assertEquals("", fence.failure(10_000_000_000L));
  }

  @Test
  void failuresOfWhatWasUnderWay_areOneTurn() {
    fail(100, 0);
    assertFalse(fence.isOpen());
    assertFalse(fence.isGivenUp(), "the device was tried once");
  }

  @Test
  void trial_thatFails_changesNeitherStateNorCause() {
    fail(8, 0);
    assertEquals("fenced", fence.state());
    assertEquals("full", fence.cause());
    for (int turn = 1; turn < 10; turn++) {
      fence.check(turn * TURN_NS);
      assertTrue(fence.isOpen());
      assertFalse(fence.isWell(), "nothing has shown that the device works");
      assertEquals(turn < 3 ? "fenced" : "given_up", fence.state());
      assertEquals("full", fence.cause());
      fail(1, turn * TURN_NS);
    }
    fence.check(10 * TURN_NS);
    fence.succeeded();
    assertEquals("open", fence.state());
    assertEquals("", fence.cause());
  }

  @Test
  void success_ofWhatWasUnderWay_doesNotEndTheTurn() {
    fail(8, 0);
    fence.succeeded();
    assertFalse(fence.isOpen());
    assertEquals("fenced", fence.state());
    fence.check(TURN_NS);
    assertTrue(fence.isOpen());
    assertFalse(fence.isWell(), "nothing has shown since that the device works");
  }

  @Test
  void threeTurns_givenUp_untilItWorksAgain() {
    fail(8, 0);
    for (int turn = 1; turn <= 2; turn++) {
      assertFalse(fence.isGivenUp());
      fence.check(turn * TURN_NS);
      assertTrue(fence.isOpen());
      fail(1, turn * TURN_NS);
      assertFalse(fence.isOpen());
    }
    assertTrue(fence.isGivenUp());
    fence.check(3 * TURN_NS);
    fence.succeeded();
    assertTrue(fence.isOpen());
    fail(7, 3 * TURN_NS);
    assertTrue(fence.isOpen());
  }
}
