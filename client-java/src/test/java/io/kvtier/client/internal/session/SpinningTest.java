package io.kvtier.client.internal.session;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

final class SpinningTest {
  private static final long FULL_NS = 800;
  private static final long BRIEF_NS = 100;

  private boolean isIndexHere;
  private final Spinning spinning = new Spinning(FULL_NS, () -> isIndexHere);

  @Test
  void nextNs_answersCome_full() {
    for (int i = 0; i < 50; i++) {
      assertEquals(FULL_NS, spinning.nextNs());
      // A single late answer changes nothing.
      spinning.failed(FULL_NS);
      assertEquals(FULL_NS, spinning.nextNs());
      spinning.succeeded();
    }
  }

  @Test
  void nextNs_answersAreLate_briefButForTrials() {
    failThrice();
    int full = 0;
    for (int i = 0; i < 160; i++) {
      long ns = spinning.nextNs();
      full += ns == FULL_NS ? 1 : 0;
      spinning.failed(ns);
    }
    assertEquals(10, full);
    assertEquals(BRIEF_NS, spinning.nextNs());
  }

  @Test
  void nextNs_answerCame_fullAgain() {
    failThrice();
    assertEquals(BRIEF_NS, spinning.nextNs());
    spinning.succeeded();
    assertEquals(FULL_NS, spinning.nextNs());
  }

  @Test
  void nextNs_indexIsOnTheSameProcessor_none_andItTellsNothing() {
    isIndexHere = true;
    for (int i = 0; i < 50; i++) {
      assertEquals(0, spinning.nextNs());
      spinning.failed(0);
    }
    isIndexHere = false;
    assertEquals(FULL_NS, spinning.nextNs());
  }

  private void failThrice() {
    for (int i = 0; i < 3; i++) {
      spinning.failed(spinning.nextNs());
    }
  }
}
