package io.kvtier.tiers.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Links that share a thread, whose clock the test moves. */
final class LinkTurnsTest {
  private static final long TURN_NS = 200_000;
  private static final long AHEAD_NS = 1_000_000;

  private long nowNs;
  private final LinkTurns turns = new LinkTurns(() -> nowNs);

  /** A link that always has something to do. */
  private class Busy extends LinkTurns.Member {
    int taken;

    @Override
    void turn() {
      taken++;
      nowNs += TURN_NS;
      turns.add(this);
    }
  }

  /** A busy link that hears, in its first turn, of something to do for another one. */
  private final class Waking extends Busy {
    private final LinkTurns.Member next;

    Waking(LinkTurns.Member next) {
      this.next = next;
    }

    @Override
    void turn() {
      if (taken == 0) {
        turns.add(next);
      }
      super.turn();
    }
  }

  private void serve(int rounds) {
    for (int i = 0; i < rounds; i++) {
      var _ = turns.serve();
    }
  }

  @Test
  void busyLinks_haveEquallyManyTurns() {
    List<Busy> links = List.of(new Busy(), new Busy(), new Busy(), new Busy());
    links.forEach(turns::add);
    serve(40);
    links.forEach(link -> assertEquals(50, link.taken, 1));
  }

  @Test
  void idleLinks_thatWakeOneAfterTheOther_delayABusyOneByALittleEach() {
    Busy busy = new Busy();
    turns.add(busy);
    serve(1_000);
    List<LinkTurns.Member> idle = new ArrayList<>(List.of(new Busy()));
    for (int i = 0; i < 50; i++) {
      idle.add(new Waking(idle.getLast()));
    }
    turns.add(idle.getLast());
    long beganNs = nowNs;
    int taken = busy.taken;
    // The first turn after this may be the busy link's: it has used no more than the others.
    while (busy.taken < taken + 2) {
      var _ = turns.serve();
    }
    long delayNs = nowNs - beganNs;
    assertTrue(delayNs <= 2L * idle.size() * AHEAD_NS, "the delay is " + delayNs + " ns");
  }
}
