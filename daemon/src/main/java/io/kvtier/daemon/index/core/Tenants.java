package io.kvtier.daemon.index.core;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import io.kvtier.daemon.config.TenantShares;
import java.util.Arrays;
import java.util.List;

/**
 * Those who share the daemon and do not see each other's blocks, by number; 0 is the one of all who
 * belong to none. Each has regions of its own in every tier, of which no other ever gets a slot,
 * and a share of what else is limited: so one who wants everything finds its own blocks in its way,
 * and nobody else's. Immutable.
 */
public final class Tenants {
  /** Everybody is of no tenant. */
  public static final Tenants NONE = new Tenants(List.of(""), TenantShares.of(List.of()));

  private final List<String> names;
  private final TenantShares shares;

  private Tenants(List<String> names, TenantShares shares) {
    this.names = names;
    this.shares = shares;
  }

  /** Those of the configuration, in its order. */
  public static Tenants of(List<TenantConfig> configured) {
    if (configured.isEmpty()) {
      return NONE;
    }
    String[] names = new String[configured.size() + 1];
    names[Grant.NO_TENANT] = "";
    for (int i = 0; i < configured.size(); i++) {
      names[i + 1] = configured.get(i).name();
    }
    return new Tenants(List.of(names), TenantShares.of(configured));
  }

  /** Whose the regions of a tier are. */
  public static final class Regions {
    private final int[] tenantOf;
    private final int tenants;

    private Regions(int[] tenantOf, int tenants) {
      this.tenantOf = tenantOf;
      this.tenants = tenants;
    }

    /** The tenant of each region, as a fresh array. */
    public int[] toArray() {
      return tenantOf.clone();
    }

    /** The tenant of a region. */
    public int tenantOf(int region) {
      return tenantOf[region];
    }

    /** How many tenants there are. */
    public int tenants() {
      return tenants;
    }

    /** Who needs to know that tenants have changed compares this; empty without tenants. */
    public String text() {
      return tenants == 1 ? "" : Arrays.toString(tenantOf);
    }
  }

  /**
   * Which tenant each region of a tier is of: each has as many as its bytes are, from the first
   * region on, and what is left is of no tenant. It depends on nothing else, so that a region is
   * the same tenant's in every start: clients keep what they have mapped.
   *
   * @param bytes of each tenant, in the order of the configuration
   */
  public Regions regions(List<Long> bytes, int regions, long regionBytes) {
    int[] tenantOf = new int[regions];
    int region = 0;
    for (int i = 0; i < bytes.size(); i++) {
      for (long left = bytes.get(i); left > 0 && region < regions; left -= regionBytes) {
        tenantOf[region++] = i + 1;
      }
    }
    return new Regions(tenantOf, count());
  }

  /** How many there are, with the one of those who have none. */
  public int count() {
    return shares.count();
  }

  /** Their names, each at its number; the first is empty. */
  public List<String> names() {
    return names;
  }

  public String name(int tenant) {
    return names.get(tenant);
  }

  /** A tenant's number, or -1. */
  public int number(String name) {
    return names.indexOf(name);
  }

  /** How many of something limited a tenant may have: its share by weight, and one at least. */
  public int shareOf(int limit, int tenant) {
    return shares.shareOf(limit, tenant);
  }
}
