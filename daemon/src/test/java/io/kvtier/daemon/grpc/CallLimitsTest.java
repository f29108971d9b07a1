package io.kvtier.daemon.grpc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import io.kvtier.daemon.index.Tenants;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class CallLimitsTest {
  private static final Tenants THREE =
      Tenants.of(
          List.of(
              new TenantConfig("blue", List.of(), List.of(), 0, 0, 1),
              new TenantConfig("green", List.of(), List.of(), 0, 0, 2)));

  private static int taken(CallLimits limits, int tenant, boolean carriesBytes) {
    int taken = 0;
    while (limits.begin(tenant, carriesBytes)) {
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
    assertTrue(limits.begin(1, false), "calls without bytes go on");
    assertFalse(limits.begin(1, true));
    limits.end(1, true);
    assertTrue(limits.begin(1, true));
  }

  @Test
  void begin_manyTenants_eachHasAFewWithBytes() {
    List<TenantConfig> many =
        IntStream.range(0, 63)
            .mapToObj(i -> new TenantConfig("t" + i, List.of(), List.of(), 0, 0, 1))
            .toList();
    assertEquals(8, taken(new CallLimits(Tenants.of(many)), 7, true));
  }

  @Test
  void begin_refused_countsForNothing() {
    CallLimits limits = new CallLimits(Tenants.NONE);
    assertEquals(64, taken(limits, 0, true));
    for (int i = 0; i < 5000; i++) {
      assertFalse(limits.begin(0, true));
    }
    assertEquals(1024 - 64, taken(limits, 0, false));
  }

  @Test
  void begin_withoutTenants_allHaveAll() {
    CallLimits limits = new CallLimits(Tenants.NONE);
    assertTrue(taken(limits, 0, true) == 64);
    assertTrue(taken(limits, 0, false) == 1024 - 64);
  }
}
