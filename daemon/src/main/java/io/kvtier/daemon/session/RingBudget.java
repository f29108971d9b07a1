package io.kvtier.daemon.session;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.SessionRegion;
import io.kvtier.protocol.access.Role;
import org.jspecify.annotations.Nullable;

/**
 * The memory of sessions' rings. Each tenant has a share of it by weight. Those who may only read
 * have at most half of their tenant's, in rings of at most the usual size: so they keep no engine
 * out.
 */
final class RingBudget {
  private static final int KIB = 1 << 10;

  /**
   * The rings of one session.
   *
   * @param bytes all of its memory
   */
  record Rings(int requestBytes, int completionBytes, long bytes) {
    static final Rings SMALLEST = of(Protocol.RING_BYTES_MIN, Protocol.RING_BYTES_MIN);

    static Rings of(int requestBytes, int completionBytes) {
      return new Rings(
          requestBytes, completionBytes, SessionRegion.regionBytes(requestBytes, completionBytes));
    }
  }

  private final long bytesMax;
  private final Tenants tenants;
  private final long[] used;
  private final long[] usedByReaders;

  /** A budget of which nothing is used. */
  RingBudget(long bytesMax, Tenants tenants) {
    this.bytesMax = bytesMax;
    this.tenants = tenants;
    this.used = new long[tenants.count()];
    this.usedByReaders = new long[tenants.count()];
  }

  /** What all sessions with such a grant may have together. */
  long share(Grant grant) {
    long ofTenant =
        (long) tenants.shareOf((int) Math.min(bytesMax / KIB, Integer.MAX_VALUE), grant.tenant())
            * KIB;
    return isReader(grant) ? ofTenant / 2 : ofTenant;
  }

  /**
   * Takes memory for a session's rings: as large as its client wishes, or else the smallest.
   *
   * @return null where there is not even memory for those
   */
  @Nullable Rings take(Grant grant, int requestBytes, int completionBytes) {
    int most = isReader(grant) ? Protocol.RING_BYTES_DEFAULT : Protocol.RING_BYTES_MAX;
    Rings wished = Rings.of(Math.min(requestBytes, most), Math.min(completionBytes, most));
    Rings rings = fits(grant, wished) ? wished : Rings.SMALLEST;
    if (!fits(grant, rings)) {
      return null;
    }
    add(grant, rings.bytes());
    return rings;
  }

  /** Gives back what a session had. */
  void release(Grant grant, Rings rings) {
    add(grant, -rings.bytes());
  }

  private boolean fits(Grant grant, Rings rings) {
    int tenant = grant.tenant();
    long all = used[tenant] + rings.bytes();
    return isReader(grant)
        ? usedByReaders[tenant] + rings.bytes() <= share(grant) && all <= 2 * share(grant)
        : all <= share(grant);
  }

  private void add(Grant grant, long bytes) {
    used[grant.tenant()] += bytes;
    usedByReaders[grant.tenant()] += isReader(grant) ? bytes : 0;
  }

  static boolean isReader(Grant grant) {
    return grant.role() == Role.READ;
  }
}
