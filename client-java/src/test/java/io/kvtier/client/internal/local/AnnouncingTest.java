package io.kvtier.client.internal.local;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

final class AnnouncingTest {
  private static final int MANY = 100;

  private static Announcing afterCopies(double bytesPerNs) {
    Announcing announcing = new Announcing();
    for (int i = 0; i < MANY; i++) {
      announcing.copied(16L << 20, Math.round((16L << 20) / bytesPerNs));
    }
    return announcing;
  }

  private static void assertNear(long expected, Announcing announcing) {
    assertEquals(0, (announcing.aheadBytes() - expected) / 1_000, "of " + expected + ", in 1,000s");
  }

  @Test
  void aheadBytes_isWhatIsCopiedWhileTheDaemonWakesUp() {
    assertNear(10 * Announcing.AHEAD_NS, afterCopies(10));
    assertNear(25 * Announcing.AHEAD_NS, afterCopies(25));
  }

  @Test
  void aheadBytes_ofVerySlowAndVeryFastCopies_staysWithinBounds() {
    assertEquals(Announcing.BYTES_MIN, afterCopies(0.1).aheadBytes());
    assertEquals(Announcing.BYTES_MAX, afterCopies(1_000).aheadBytes());
  }

  @Test
  void copied_oneOfAnotherSpeed_movesItByAQuarter() {
    Announcing announcing = afterCopies(10);
    long before = announcing.aheadBytes();
    announcing.copied(16L << 20, 838_861);
    assertNear(before * 5 / 4, announcing);
  }

  @Test
  void copied_littleOrInNoTime_tellsNothing() {
    Announcing announcing = new Announcing();
    announcing.copied(Announcing.TELLING_BYTES_MIN - 1, 1);
    announcing.copied(16L << 20, 0);
    assertEquals(Announcing.BYTES_FIRST, announcing.aheadBytes());
  }
}
