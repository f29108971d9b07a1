package io.kvtier.tiers.object;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** What a call owes, and what of that another cap makes. */
final class BandwidthCapTest {
  private static final long SECOND_NS = 1_000_000_000;

  @Test
  void change_whatIsOwed_isPaidByTheNewCap() {
    BandwidthCap cap = new BandwidthCap(1_000, 0);
    cap.take(64_000, 0);
    assertEquals(64 * SECOND_NS, cap.waitNs(0));
    cap.change(32_000);
    // 60,000 bytes are owed still.
    assertEquals(60.0 * SECOND_NS / 32, (double) cap.waitNs(4 * SECOND_NS), 1_000.0);
    cap.change(0);
    assertTrue(cap.waitNs(4 * SECOND_NS) <= 0);
  }

  @Test
  void change_nothingOwed_nothingIsWaitedFor() {
    BandwidthCap cap = new BandwidthCap(0, 0);
    cap.take(64_000, 0);
    assertTrue(cap.waitNs(0) <= 0);
    cap.change(1_000);
    assertTrue(cap.waitNs(SECOND_NS) <= 0);
    cap.take(1_000, SECOND_NS);
    assertEquals(SECOND_NS, cap.waitNs(SECOND_NS));
  }
}
