package io.kvtier.daemon.index.core;

import io.kvtier.protocol.Counted;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.LoadReport;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What gets found, and what engines report of their loads, by namespace and by tenant. The first
 * {@link #NAMED_MAX} namespaces that are used have accounts of their own; the others share one. An
 * account that was not used for an hour is given to another namespace, and begins at zero.
 *
 * <p>The namespaces of kvtier's own tools have no account: their lookups and gets are counted apart
 * ({@link Counter#TOOL_HITS}), so that a benchmark does not make the daemon look useful. Confined
 * to the index.
 */
public final class Accounts {
  /** Maximum namespaces with accounts of their own. */
  public static final int NAMED_MAX = 20;

  /** A longer name has no account of its own: the names of all accounts are in one report. */
  static final int NAME_LENGTH_MAX = 256;

  static final long IDLE_NS_MAX = 3_600_000_000_000L;

  /** How often an idle account is searched for. */
  static final long SEARCH_EVERY_NS = 1_000_000_000L;

  /** The property of a namespace that says what it is for. */
  private static final String PURPOSE = "purpose";

  /** The value of that property in namespaces of kvtier's own tools begins with this word. */
  private static final String OF_TOOLS = "kvtier ";

  /** The counts of an account. */
  public enum Column {
    HITS(0, "hits"),
    MISSES(1, "misses"),
    SAVED_TOKENS(2, "saved_tokens"),
    SAVED_PREFILL_NS(3, "saved_prefill_ns"),
    SPENT_LOAD_NS(4, "spent_load_ns");

    private final int place;
    private final String key;

    Column(int place, String key) {
      this.place = place;
      this.key = key;
    }

    /** The name in JSON. */
    public String key() {
      return key;
    }
  }

  /**
   * An account.
   *
   * @param tenant the name of the tenant; empty for no tenant
   * @param namespace the name of the namespace; null for a tenant, or for all other namespaces
   */
  public record Account(String tenant, @Nullable String namespace, Map<Column, Long> counts) {}

  private static final int COLUMNS = Column.values().length;
  private static final int UNKNOWN = -1;
  private static final int TOOLS = -2;

  private final Namespaces namespaces;
  private final Counters counters;

  /** By namespace: the number of its account, {@link #UNKNOWN} or {@link #TOOLS}. */
  private final int[] accountOf = new int[Namespaces.NAMESPACES_MAX];

  /** By namespace: blocks that gets found, and that no report has claimed. */
  private final long[] unclaimed = new long[Namespaces.NAMESPACES_MAX];

  /** By account, the one of all others last. */
  private final long[][] counts = new long[NAMED_MAX + 1][COLUMNS];

  private final @Nullable String[] names = new String[NAMED_MAX];
  private final int[] tenants = new int[NAMED_MAX];
  private final long[] usedNs = new long[NAMED_MAX];
  private final long[][] ofTenants;
  private int named;
  private boolean hasSearched;
  private long searchedNs;

  public Accounts(Namespaces namespaces, Counters counters) {
    this.namespaces = namespaces;
    this.counters = counters;
    ofTenants = new long[namespaces.tenants().count()][COLUMNS];
    Arrays.fill(accountOf, UNKNOWN);
  }

  /** A namespace was registered; its id may have been another one's. */
  public void opened(Namespaces.Namespace namespace) {
    int id = namespace.id();
    accountOf[id] =
        namespace.properties().getOrDefault(PURPOSE, "").startsWith(OF_TOOLS) ? TOOLS : UNKNOWN;
    unclaimed[id] = 0;
  }

  /** Blocks were looked up, of which some were found. */
  public void lookedUp(int namespaceId, int blocks, int found) {
    if (accountOf[namespaceId] == TOOLS) {
      counters.add(Counter.TOOL_LOOKUP_BLOCKS, blocks);
      counters.add(Counter.TOOL_LOOKUP_HITS, found);
    }
  }

  /** A get found blocks. */
  public void found(int namespaceId, int blocks, long nowNs) {
    if (blocks == 0) {
      return;
    }
    unclaimed[namespaceId] += blocks;
    if (accountOf[namespaceId] == TOOLS) {
      counters.add(Counter.TOOL_HITS, blocks);
    } else {
      add(namespaceId, Column.HITS, blocks, nowNs);
    }
  }

  /** A get missed blocks. */
  public void missed(int namespaceId, int blocks, long nowNs) {
    if (blocks == 0) {
      return;
    }
    if (accountOf[namespaceId] == TOOLS) {
      counters.add(Counter.TOOL_MISSES, blocks);
    } else {
      add(namespaceId, Column.MISSES, blocks, nowNs);
    }
  }

  /**
   * An engine has reported loads.
   *
   * @return why the report cannot be true, and was not counted; null if it was
   */
  public @Nullable String reported(int namespaceId, LoadReport report, long nowNs) {
    String why = report.whyNot();
    if (why != null) {
      return why;
    }
    if (report.blocks() > unclaimed[namespaceId]) {
      return "the report is about "
          + Counted.of(report.blocks(), "block")
          + ", expected at most "
          + unclaimed[namespaceId]
          + ": gets of this namespace have found no more since the last report";
    }
    unclaimed[namespaceId] -= report.blocks();
    if (accountOf[namespaceId] != TOOLS) {
      add(namespaceId, Column.SAVED_TOKENS, report.tokens(), nowNs);
      add(namespaceId, Column.SAVED_PREFILL_NS, report.prefillNs(), nowNs);
      add(namespaceId, Column.SPENT_LOAD_NS, report.loadNs(), nowNs);
      raise(Counter.SAVED_TOKENS, report.tokens());
      raise(Counter.SAVED_PREFILL_NS, report.prefillNs());
      raise(Counter.SPENT_LOAD_NS, report.loadNs());
    }
    return null;
  }

  private void raise(Counter counter, long by) {
    counters.set(counter, sum(counters.get(counter), by));
  }

  /** A sum of numbers from 0 that stops at the largest number: clients decide what is added. */
  private static long sum(long count, long by) {
    return count > Long.MAX_VALUE - by ? Long.MAX_VALUE : count + by;
  }

  private void add(int namespaceId, Column column, long by, long nowNs) {
    Namespaces.Namespace namespace = namespaces.byId(namespaceId);
    if (namespace == null) {
      return;
    }
    int at = column.place;
    long[] ofTenant = ofTenants[namespace.tenant()];
    ofTenant[at] = sum(ofTenant[at], by);
    int account = accountOf[namespaceId];
    if (account == UNKNOWN) {
      account = accountFor(namespace, nowNs);
    }
    counts[account][at] = sum(counts[account][at], by);
    if (account < NAMED_MAX) {
      usedNs[account] = nowNs;
    }
  }

  private int accountFor(Namespaces.Namespace namespace, long nowNs) {
    if (namespace.name().length() > NAME_LENGTH_MAX) {
      return NAMED_MAX;
    }
    int account = 0;
    while (account < named
        && !(namespace.name().equals(names[account]) && tenants[account] == namespace.tenant())) {
      account++;
    }
    if (account == NAMED_MAX) {
      account = idleAccount(nowNs);
    }
    if (account < NAMED_MAX) {
      if (!namespace.name().equals(names[account]) || tenants[account] != namespace.tenant()) {
        names[account] = namespace.name();
        tenants[account] = namespace.tenant();
      }
      named = Math.max(named, account + 1);
      accountOf[namespace.id()] = account;
    }
    return account;
  }

  /** Frees the account that was not used for the longest time; the shared one if all are in use. */
  private int idleAccount(long nowNs) {
    if (hasSearched && nowNs - searchedNs < SEARCH_EVERY_NS) {
      return NAMED_MAX;
    }
    hasSearched = true;
    searchedNs = nowNs;
    int oldest = 0;
    for (int i = 1; i < NAMED_MAX; i++) {
      oldest = usedNs[i] - usedNs[oldest] < 0 ? i : oldest;
    }
    if (nowNs - usedNs[oldest] < IDLE_NS_MAX) {
      return NAMED_MAX;
    }
    Arrays.fill(counts[oldest], 0);
    for (int id = 0; id < accountOf.length; id++) {
      accountOf[id] = accountOf[id] == oldest ? UNKNOWN : accountOf[id];
    }
    return oldest;
  }

  /** The accounts of namespaces, the shared one last. Those that were never used are left out. */
  public List<Account> ofNamespaces() {
    List<Account> all = new ArrayList<>();
    for (int i = 0; i < named; i++) {
      all.add(new Account(namespaces.tenants().name(tenants[i]), names[i], copy(counts[i])));
    }
    if (Arrays.stream(counts[NAMED_MAX]).anyMatch(count -> count != 0)) {
      all.add(new Account("", null, copy(counts[NAMED_MAX])));
    }
    return all;
  }

  /** The counts of a tenant, with those of namespaces that no longer exist. */
  public Map<Column, Long> ofTenant(int tenant) {
    return copy(ofTenants[tenant]);
  }

  private static Map<Column, Long> copy(long[] counts) {
    Map<Column, Long> copy = new EnumMap<>(Column.class);
    for (Column column : Column.values()) {
      copy.put(column, counts[column.place]);
    }
    return copy;
  }
}
