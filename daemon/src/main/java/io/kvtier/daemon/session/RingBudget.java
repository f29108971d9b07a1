package io.kvtier.daemon.session;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.SessionRegion;
import io.kvtier.protocol.access.Role;
import org.jspecify.annotations.Nullable;

/**
 * The memory for sessions' rings. Each tenant has a share by its weight. Clients with the role read
 * have at most half of their tenant's share, in rings of at most the usual size, so that they keep
 * no engine out.
 */
final class RingBudget {
  private static final int KIB = 1 << 10;

  /**
   * The rings of one session.
   *
   * @param bytes the memory of both rings and of the session's region
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

  /** An unused budget. */
  RingBudget(long bytesMax, Tenants tenants) {
    this.bytesMax = bytesMax;
    this.tenants = tenants;
    this.used = new long[tenants.count()];
    this.usedByReaders = new long[tenants.count()];
  }

  /** The maximum memory of all sessions with an equal grant. */
  long share(Grant grant) {
    long ofTenant =
        (long) tenants.shareOf((int) Math.min(bytesMax / KIB, Integer.MAX_VALUE), grant.tenant())
            * KIB;
    return isReader(grant) ? ofTenant / 2 : ofTenant;
  }

  /**
   * Takes memory for a session's rings, in the wished sizes, or else in the smallest.
   *
   * @return null if the memory does not suffice for the smallest
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

  /** Gives a session's memory back. */
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
