package io.kvtier.daemon.grpc;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import io.kvtier.daemon.index.core.Tenants;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class HeldAnswersTest {
  /** So many of which a tenant may hold 16 each. */
  private static final Tenants MANY =
      Tenants.of(
          IntStream.range(0, 63)
              .mapToObj(i -> new TenantConfig("t" + i, List.of(), List.of(), 0, 0, 1))
              .toList());

  private static final int MOST = 16;

  private final CallLimits limits = new CallLimits(MANY);
  private final HeldAnswers held = new HeldAnswers(limits);
  private final HeldAnswers ofAnother = new HeldAnswers(limits);
  private int brokenOff;

  private HeldAnswers.Held add(HeldAnswers to, int tenant) {
    List<HeldAnswers.Held> added = new ArrayList<>();
    HeldAnswers.Held one =
        requireNonNull(
            to.add(
                tenant,
                () -> {
                  brokenOff++;
                  added.getFirst().over();
                },
                0));
    added.add(one);
    return one;
  }

  @Test
  void add_onManyConnections_isBoundedByTenant() {
    for (int i = 0; i < MOST / 2; i++) {
      add(held, 1);
      add(ofAnother, 1);
    }
    assertNull(held.add(1, () -> {}, 0));
    assertNull(ofAnother.add(1, () -> {}, 0));
    assertNotNull(held.add(2, () -> {}, 0));
    ofAnother.close();
    assertEquals(0, ofAnother.count());
    assertNotNull(held.add(1, () -> {}, 0), "a connection that has ended holds none");
  }

  @Test
  void over_twice_countsOnce() {
    HeldAnswers.Held one = add(held, 1);
    one.over();
    one.over();
    for (int i = 0; i < MOST; i++) {
      add(held, 1);
    }
    assertNull(held.add(1, () -> {}, 0));
  }

  @Test
  void belongTo_whatWasNobodys_countsAsFarAsItMay() {
    for (int i = 0; i < MOST - 3; i++) {
      add(ofAnother, 1);
    }
    for (int i = 0; i < 5; i++) {
      add(held, HeldAnswers.NOBODY);
    }
    held.belongTo(1);
    assertEquals(3, held.count());
    assertEquals(2, brokenOff);
    assertNull(held.add(1, () -> {}, 0));
  }

  @Test
  void checkTime_late_areBrokenOff() {
    add(held, 1);
    held.checkTime(10, 10);
    assertEquals(1, held.count());
    held.checkTime(11, 10);
    assertEquals(0, held.count());
    assertEquals(1, brokenOff);
  }
}
