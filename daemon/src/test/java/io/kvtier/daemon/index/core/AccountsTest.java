package io.kvtier.daemon.index.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import io.kvtier.daemon.index.core.Accounts.Account;
import io.kvtier.daemon.index.core.Accounts.Column;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.LoadReport;
import java.lang.foreign.Arena;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.junit.jupiter.api.Test;

class AccountsTest {
  private static final long HOUR_NS = 3_600_000_000_000L;

  private final Namespaces namespaces =
      new Namespaces(Tenants.of(List.of(new TenantConfig("blue", List.of(), List.of(), 1, 1, 1))));
  private final Counters counters =
      new Counters(Arena.ofAuto().allocate(DaemonRegionDescriptor.REGION_BYTES, 4096));
  private final Accounts accounts = new Accounts(namespaces, counters);

  private int open(int tenant, String name, Map<String, String> properties) {
    Namespaces.Namespace namespace = namespaces.add(tenant, name, 4096, properties);
    accounts.opened(namespace);
    return namespace.id();
  }

  private int open(String name) {
    return open(0, name, Map.of("name", name));
  }

  private long of(String name, Column column) {
    return accounts.ofNamespaces().stream()
        .filter(account -> name.equals(account.namespace()))
        .mapToLong(account -> account.counts().getOrDefault(column, -1L))
        .sum();
  }

  @Test
  void found_andMissed_countForNamespaceAndTenant() {
    int model = open("model");
    int ofBlue = open(1, "model", Map.of("name", "model", "of", "blue"));
    accounts.found(model, 3, 0);
    accounts.missed(model, 2, 0);
    accounts.found(ofBlue, 7, 0);
    List<Account> all = accounts.ofNamespaces();
    assertEquals(List.of("", "blue"), all.stream().map(Account::tenant).toList());
    assertEquals(3L, all.getFirst().counts().get(Column.HITS));
    assertEquals(2L, all.getFirst().counts().get(Column.MISSES));
    assertEquals(7L, all.getLast().counts().get(Column.HITS));
    assertEquals(3L, accounts.ofTenant(0).get(Column.HITS));
    assertEquals(7L, accounts.ofTenant(1).get(Column.HITS));
  }

  @Test
  void reported_blocksThatGetsFound_countEverywhere() {
    int model = open("model");
    accounts.found(model, 4, 0);
    assertNull(accounts.reported(model, new LoadReport(4, 64, 8_000_000, 1_000_000), 0));
    assertEquals(64, of("model", Column.SAVED_TOKENS));
    assertEquals(8_000_000, of("model", Column.SAVED_PREFILL_NS));
    assertEquals(1_000_000, of("model", Column.SPENT_LOAD_NS));
    assertEquals(64L, accounts.ofTenant(0).get(Column.SAVED_TOKENS));
    assertEquals(64, counters.get(Counter.SAVED_TOKENS));
    assertEquals(8_000_000, counters.get(Counter.SAVED_PREFILL_NS));
    assertEquals(1_000_000, counters.get(Counter.SPENT_LOAD_NS));
  }

  @Test
  void reported_blocksThatNoGetFound_countNowhere() {
    int model = open("model");
    accounts.found(model, 2, 0);
    assertNull(accounts.reported(model, new LoadReport(1, 16, 1, 1), 0));
    assertEquals(
        "the report is about 2 blocks, expected at most 1: gets of this namespace have found no"
            + " more since the last report",
        accounts.reported(model, new LoadReport(2, 16, 1, 1), 0));
    assertEquals(16, counters.get(Counter.SAVED_TOKENS));
  }

  @Test
  void reported_whatNobodyCanMeasure_countsNowhere() {
    int model = open("model");
    accounts.found(model, 1, 0);
    assertEquals(
        "tokens is 18446744073709551615, expected 0 to 65536 for 1 block",
        accounts.reported(model, new LoadReport(1, -1, -1, -1), 0));
    assertEquals(0, counters.get(Counter.SAVED_TOKENS));
    assertEquals(0, counters.get(Counter.SPENT_LOAD_NS));
  }

  @Test
  void reported_moreThanANumberHolds_staysAtTheLargestNumber() {
    int model = open("model");
    long most = 4_294_967_296_000_000_000L;
    for (int i = 0; i < 3; i++) {
      accounts.found(model, 65_536, 0);
      assertNull(accounts.reported(model, new LoadReport(65_536, 1L << 32, most, 0), 0));
    }
    assertEquals(Long.MAX_VALUE, counters.get(Counter.SAVED_PREFILL_NS));
    assertEquals(Long.MAX_VALUE, of("model", Column.SAVED_PREFILL_NS));
    assertEquals(Long.MAX_VALUE, accounts.ofTenant(0).get(Column.SAVED_PREFILL_NS));
    assertEquals(3L << 32, counters.get(Counter.SAVED_TOKENS));
  }

  @Test
  void toolsOfKvtier_haveNoAccount_andAreCountedApart() {
    int tool = open(0, "kvtier-bench", Map.of("name", "kvtier-bench", "purpose", "kvtier bench"));
    accounts.lookedUp(tool, 5, 4);
    accounts.found(tool, 3, 0);
    accounts.missed(tool, 2, 0);
    assertNull(accounts.reported(tool, new LoadReport(3, 48, 1, 1), 0));
    assertEquals(List.of(), accounts.ofNamespaces());
    assertEquals(0L, accounts.ofTenant(0).get(Column.HITS));
    assertEquals(0, counters.get(Counter.SAVED_TOKENS));
    assertEquals(5, counters.get(Counter.TOOL_LOOKUP_BLOCKS));
    assertEquals(4, counters.get(Counter.TOOL_LOOKUP_HITS));
    assertEquals(3, counters.get(Counter.TOOL_HITS));
    assertEquals(2, counters.get(Counter.TOOL_MISSES));
  }

  @Test
  void lookedUp_byEngines_isNotOfTools() {
    accounts.lookedUp(open("model"), 5, 4);
    assertEquals(0, counters.get(Counter.TOOL_LOOKUP_BLOCKS));
  }

  @Test
  void moreNamespacesThanAccounts_shareOne() {
    for (int i = 0; i < Accounts.NAMED_MAX + 5; i++) {
      accounts.found(open("model-" + i), 1, 0);
    }
    accounts.found(open("x".repeat(Accounts.NAME_LENGTH_MAX + 1)), 1, 0);
    List<Account> all = accounts.ofNamespaces();
    assertEquals(Accounts.NAMED_MAX + 1, all.size());
    assertNull(all.getLast().namespace());
    assertEquals(6L, all.getLast().counts().get(Column.HITS));
    assertEquals(Accounts.NAMED_MAX + 6L, accounts.ofTenant(0).get(Column.HITS));
  }

  @Test
  void idleAccount_isGivenToAnotherNamespace() {
    int model = open("model-0");
    accounts.found(model, 1, 0);
    for (int i = 1; i < Accounts.NAMED_MAX; i++) {
      accounts.found(open("model-" + i), 1, i);
    }
    int late = open("late");
    accounts.found(late, 2, HOUR_NS - 1);
    assertEquals(0, of("late", Column.HITS));
    accounts.found(late, 3, HOUR_NS + Accounts.SEARCH_EVERY_NS);
    assertEquals(3, of("late", Column.HITS));
    assertEquals(0, of("model-0", Column.HITS));
    assertEquals(1, of("model-1", Column.HITS));
    accounts.found(model, 1, HOUR_NS + Accounts.SEARCH_EVERY_NS);
    assertEquals(3L, accounts.ofNamespaces().getLast().counts().get(Column.HITS));
  }

  @Test
  void namespaceThatIsRegisteredAgain_keepsItsAccount() {
    int first = open("model");
    accounts.found(first, 1, 0);
    namespaces.forget(Objects.requireNonNull(namespaces.byId(first)));
    int again = open("model");
    accounts.found(again, 1, 0);
    assertEquals(2, of("model", Column.HITS));
    assertEquals(1, accounts.ofNamespaces().size());
  }
}
