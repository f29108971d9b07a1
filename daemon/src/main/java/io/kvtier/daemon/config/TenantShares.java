package io.kvtier.daemon.config;

import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import java.util.Arrays;
import java.util.List;

/**
 * How what is limited is shared out, by weight. Tenants have their numbers from 1 on, in the order
 * of the configuration; 0 is all who belong to none, together of weight 1. Immutable.
 */
public final class TenantShares {
  private final int[] weights;
  private final long weightSum;

  private TenantShares(int[] weights) {
    this.weights = weights;
    this.weightSum = Arrays.stream(weights).sum();
  }

  /** Those of a configuration. */
  public static TenantShares of(List<TenantConfig> tenants) {
    int[] weights = new int[tenants.size() + 1];
    weights[0] = 1;
    for (int i = 0; i < tenants.size(); i++) {
      weights[i + 1] = tenants.get(i).weight();
    }
    return new TenantShares(weights);
  }

  /** How many share, with the one of those who have no tenant. */
  public int count() {
    return weights.length;
  }

  /** How many of something limited a tenant may have, and one at least. */
  public int shareOf(int limit, int tenant) {
    return weights.length == 1
        ? limit
        : Math.max(1, (int) ((long) limit * weights[tenant] / weightSum));
  }
}
