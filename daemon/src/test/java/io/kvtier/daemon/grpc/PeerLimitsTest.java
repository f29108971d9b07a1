package io.kvtier.daemon.grpc;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.KvtierdConfig.ListenerLimits;
import org.junit.jupiter.api.Test;

class PeerLimitsTest {
  private static final long SECOND = 1_000_000_000L;

  private long nowNs = -5 * SECOND;

  private PeerLimits limits(int connections, int ofPeer, int callsPerSecond) {
    return new PeerLimits(
        new ListenerLimits(connections, ofPeer, 10 * SECOND, 300 * SECOND, callsPerSecond),
        () -> nowNs);
  }

  @Test
  void mayCall_asManyAtOnceAsASecondGives_thenAtThatRate() {
    PeerLimits limits = limits(10, 10, 4);
    for (int i = 0; i < 4; i++) {
      assertTrue(limits.mayCall("a"), "call " + i);
    }
    assertFalse(limits.mayCall("a"));
    assertTrue(limits.mayCall("b"), "another's calls are none of its");
    nowNs += SECOND / 4;
    assertTrue(limits.mayCall("a"));
    assertFalse(limits.mayCall("a"));
    nowNs += 100 * SECOND;
    for (int i = 0; i < 4; i++) {
      assertTrue(limits.mayCall("a"), "call " + i);
    }
    assertFalse(limits.mayCall("a"), "what was not called is not saved up");
  }

  @Test
  void mayCall_afterASweep_hasNoMoreCallsForIt() {
    PeerLimits limits = limits(10, 10, 4);
    for (int i = 0; i < 4; i++) {
      assertTrue(limits.mayCall("a"));
    }
    limits.sweep();
    assertFalse(limits.mayCall("a"));
    nowNs += SECOND;
    limits.sweep();
    for (int i = 0; i < 4; i++) {
      assertTrue(limits.mayCall("a"));
    }
    nowNs += SECOND + 1;
    limits.sweep();
    for (int i = 0; i < 4; i++) {
      assertTrue(limits.mayCall("a"));
    }
    assertFalse(limits.mayCall("a"));
  }

  @Test
  void mayCall_withoutARate_hasNoLimit() {
    PeerLimits limits = limits(3, 2, 0);
    for (int i = 0; i < 1000; i++) {
      assertTrue(limits.mayCall("c"));
    }
  }

  @Test
  void isOver_firstCallIsAwaitedForLessThanOthers() {
    PeerLimits limits = limits(1, 1, 0);
    assertFalse(limits.isOver(false, 10 * SECOND));
    assertTrue(limits.isOver(false, 10 * SECOND + 1));
    assertFalse(limits.isOver(true, 300 * SECOND));
    assertTrue(limits.isOver(true, 300 * SECOND + 1));
  }
}
