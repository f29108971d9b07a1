package io.kvtier.daemon.grpc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import io.kvtier.daemon.index.core.Tenants;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class CallLimitsTest {
  private static final Tenants THREE =
      Tenants.of(
          List.of(
              new TenantConfig("blue", List.of(), List.of(), 0, 0, 1),
              new TenantConfig("green", List.of(), List.of(), 0, 0, 2)));

  private static final Tenants MANY =
      Tenants.of(
          IntStream.range(0, 63)
              .mapToObj(i -> new TenantConfig("t" + i, List.of(), List.of(), 0, 0, 1))
              .toList());

  private static int taken(CallLimits limits, int tenant, boolean carriesBytes) {
    int taken = 0;
    while (limits.begin(tenant, carriesBytes, false)) {
      taken++;
    }
    return taken;
  }

  @Test
  void begin_greedyTenant_leavesOthersTheirShare() {
    CallLimits limits = new CallLimits(THREE);
    assertTrue(taken(limits, 1, true) < 64 / 3);
    assertTrue(taken(limits, 2, true) >= 64 / 2);
    assertTrue(taken(limits, 0, true) >= 64 / 5);
    assertTrue(limits.begin(1, false, false), "calls without bytes go on");
    assertFalse(limits.begin(1, true, false));
    limits.end(1, true);
    assertTrue(limits.begin(1, true, false));
  }

  @Test
  void begin_manyTenants_eachHasAFewWithBytes() {
    assertEquals(8, taken(new CallLimits(MANY), 7, true));
  }

  @Test
  void begin_refused_countsForNothing() {
    CallLimits limits = new CallLimits(Tenants.NONE);
    assertEquals(64, taken(limits, 0, true));
    for (int i = 0; i < 5000; i++) {
      assertFalse(limits.begin(0, true, false));
    }
    assertEquals(1024 - 64, taken(limits, 0, false));
  }

  @Test
  void begin_withoutTenants_allHaveAll() {
    CallLimits limits = new CallLimits(Tenants.NONE);
    assertTrue(taken(limits, 0, true) == 64);
    assertTrue(taken(limits, 0, false) == 1024 - 64);
  }

  @Test
  void begin_onlyCallOfItsConnection_findsAPlaceBesideBusyConnections() {
    CallLimits limits = new CallLimits(THREE);
    int busy = taken(limits, 1, false);
    assertFalse(limits.begin(1, false, false));
    int spare = 0;
    while (limits.begin(1, false, true)) {
      spare++;
    }
    assertEquals(busy / 8, spare);
    assertFalse(limits.begin(1, false, false));
    assertTrue(limits.begin(2, false, false), "other tenants lose nothing");
  }

  /** Two megabytes of the heap each: 8 for all of them would be a gigabyte. */
  @Test
  void begin_manyTenantsAtOnce_areFewWithBytesTogether_andEachHasOne() {
    CallLimits limits = new CallLimits(MANY);
    int all = 0;
    for (int round = 0; round < 2; round++) {
      int[] taken = new int[MANY.count()];
      for (int tenant = 0; tenant < taken.length; tenant++) {
        taken[tenant] = taken(limits, tenant, true);
        assertTrue(taken[tenant] >= 1, "tenant " + tenant);
      }
      all = IntStream.of(taken).sum();
      for (int tenant = 0; tenant < taken.length; tenant++) {
        for (int i = 0; i < taken[tenant]; i++) {
          limits.end(tenant, true);
        }
      }
    }
    assertEquals(64 + 32, all, "what ended can be had again");
  }

  @Test
  void hold_greedyTenant_leavesOthersTheirShare() {
    CallLimits limits = new CallLimits(MANY);
    for (int i = 0; i < 16; i++) {
      assertTrue(limits.hold(3));
    }
    assertFalse(limits.hold(3));
    assertTrue(limits.hold(4));
    limits.endHold(3);
    assertTrue(limits.hold(3));
  }
}
