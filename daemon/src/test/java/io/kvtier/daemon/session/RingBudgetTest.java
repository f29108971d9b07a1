package io.kvtier.daemon.session;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.session.RingBudget.Rings;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.access.Role;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class RingBudgetTest {
  private static final long BYTES = 64L << 20;
  private static final int LARGE = 1 << 20;
  private static final Grant WRITER = new Grant("w", Role.WRITE, Grant.NO_TENANT);
  private static final Grant READER = new Grant("r", Role.READ, Grant.NO_TENANT);

  /** Takes rings of a size until there are none; returns them. */
  private static List<Rings> takeAll(RingBudget budget, Grant grant, int ringBytes) {
    List<Rings> taken = new ArrayList<>();
    Rings rings = budget.take(grant, ringBytes, ringBytes);
    while (rings != null) {
      taken.add(rings);
      rings = budget.take(grant, ringBytes, ringBytes);
    }
    return taken;
  }

  private static long bytes(List<Rings> rings) {
    return rings.stream().mapToLong(Rings::bytes).sum();
  }

  @Test
  void writers_takeTheWholeBudgetAndNoMore() {
    RingBudget budget = new RingBudget(BYTES, Tenants.NONE);
    long all = bytes(takeAll(budget, WRITER, LARGE));
    assertTrue(all <= BYTES, all + " bytes");
    assertTrue(all > BYTES - Rings.SMALLEST.bytes(), all + " bytes");
  }

  @Test
  void writers_findOnlyTheSmallestRingsAtTheEnd() {
    RingBudget budget = new RingBudget(BYTES, Tenants.NONE);
    List<Rings> taken = takeAll(budget, WRITER, LARGE);
    assertEquals(Rings.of(LARGE, LARGE), taken.getFirst());
    assertEquals(Rings.SMALLEST, taken.getLast());
  }

  @Test
  void readers_haveHalfOfIt_inRingsOfTheUsualSizeAtMost_andLeaveTheRestToWriters() {
    RingBudget budget = new RingBudget(BYTES, Tenants.NONE);
    List<Rings> taken = takeAll(budget, READER, Protocol.RING_BYTES_MAX);
    assertTrue(bytes(taken) <= BYTES / 2, bytes(taken) + " bytes");
    for (Rings rings : taken) {
      assertTrue(rings.requestBytes() <= Protocol.RING_BYTES_DEFAULT, rings::toString);
      assertTrue(rings.completionBytes() <= Protocol.RING_BYTES_DEFAULT, rings::toString);
    }
    assertTrue(bytes(takeAll(budget, WRITER, LARGE)) > BYTES / 2 - Rings.SMALLEST.bytes());
  }

  @Test
  void tenants_takeNothingOfEachOthers() {
    Tenants tenants = Tenants.of(List.of(new TenantConfig("blue", List.of(), List.of(), 0, 0, 3)));
    RingBudget budget = new RingBudget(BYTES, tenants);
    Grant blue = new Grant("b", Role.WRITE, 1);
    long ofBlue = bytes(takeAll(budget, blue, LARGE));
    assertTrue(ofBlue <= budget.share(blue), ofBlue + " bytes");
    long ofNobody = bytes(takeAll(budget, WRITER, LARGE));
    assertTrue(ofNobody > budget.share(WRITER) - Rings.SMALLEST.bytes(), ofNobody + " bytes");
    assertTrue(ofBlue + ofNobody <= BYTES);
  }

  @Test
  void release_givesTheSameBytesToTheNext() {
    RingBudget budget = new RingBudget(BYTES, Tenants.NONE);
    List<Rings> taken = takeAll(budget, READER, LARGE);
    budget.release(READER, taken.getFirst());
    assertNotNull(
        budget.take(READER, taken.getFirst().requestBytes(), taken.getFirst().completionBytes()));
  }
}
