package io.kvtier.tiers.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

final class PeerSpeedTest {
  private static final int LENGTH = 1_000_000;

  @Test
  void delivered_followingAndAlone_tellBytesFromLatency() {
    PeerSpeed speed = new PeerSpeed();
    for (int i = 0; i < 200; i++) {
      boolean isFollowing = i % 4 != 0;
      speed.delivered(LENGTH, isFollowing ? 2_000_000 : 5_000_000, isFollowing, i);
    }

    assertEquals(2, speed.nsPerByte(), 0.1);
    assertEquals(3_000_000, speed.latencyNs(), 200_000);
    assertEquals(11e6, (double) speed.expectedNs(4L * LENGTH), 600_000);
  }

  @Test
  void expectedNs_beforeTheFirstMeasurement_isOfTheAssumedSpeed() {
    PeerSpeed speed = new PeerSpeed();

    assertFalse(speed.isKnown(1));
    assertFalse(speed.isMeasured());
    assertEquals(LENGTH, speed.expectedNs(LENGTH));
  }

  @Test
  void isKnown_afterHalfAMinute_isFalse_andTheNextMeasurementCountsAlone() {
    PeerSpeed speed = new PeerSpeed();
    speed.delivered(LENGTH, 900_000_000, false, 0);
    assertTrue(speed.isKnown(29_000_000_000L));
    assertFalse(speed.isKnown(31_000_000_000L));

    speed.delivered(LENGTH, 1_000_000, false, 31_000_000_000L);
    assertEquals(1, speed.nsPerByte(), 1e-9);
  }

  @Test
  void late_makesTheNodeSlow_untilItDelivers() {
    PeerSpeed speed = new PeerSpeed();
    speed.delivered(LENGTH, 1_000_000, false, 0);
    speed.late(1_000_000_000, 1);
    assertTrue(speed.expectedNs(LENGTH) >= 1_000_000_000);
    for (int i = 0; i < 60; i++) {
      speed.delivered(LENGTH, 1_000_000, false, i);
    }
    assertTrue(speed.expectedNs(LENGTH) < 2_000_000, speed.expectedNs(LENGTH) + " ns");
  }

  @Test
  void late_afterHalfAMinute_countsAlone() {
    PeerSpeed speed = new PeerSpeed();
    speed.delivered(LENGTH, 900_000_000, false, 0);
    speed.late(800_000_000, 1);
    speed.late(5_000_000, 40_000_000_000L);
    assertEquals(5_000_000, speed.latencyNs(), 1e-9);
    assertEquals(1, speed.nsPerByte(), 1e-9, "it is not known, and assumed");
    assertFalse(speed.isMeasured());
  }

  @Test
  void delivered_afterOnlyLateBlocks_isTheTimeForAByte() {
    PeerSpeed speed = new PeerSpeed();
    speed.late(5_000_000, 0);
    speed.delivered(LENGTH, 3_000_000, true, 1);
    assertEquals(3, speed.nsPerByte(), 1e-9);
  }

  @Test
  void delivered_inNoTime_isNotTheAssumedSpeed() {
    PeerSpeed speed = new PeerSpeed();
    speed.delivered(LENGTH, 0, false, 0);
    assertTrue(speed.isMeasured());
    assertTrue(speed.nsPerByte() < 1e-3, speed.nsPerByte() + " ns");
  }
}
