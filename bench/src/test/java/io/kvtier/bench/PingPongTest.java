package io.kvtier.bench;

import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

final class PingPongTest {
  private static final long SLICE_NS = 20_000_000;

  @Test
  @Timeout(60)
  void everyMode_answersAgainAndAgain() throws Exception {
    try (PingPong pingPong = new PingPong()) {
      for (int round = 0; round < 2; round++) {
        assertTrue(pingPong.spinUs(SLICE_NS) > 0);
        assertTrue(pingPong.futexUs(SLICE_NS, 0) > 0);
        assertTrue(pingPong.futexUs(SLICE_NS, 1) > 0);
        assertTrue(pingPong.ringPerS(SLICE_NS, 256) > 0);
      }
    }
  }
}
