package io.kvtier.daemon.grpc;

import io.kvtier.daemon.config.KvtierdConfig.ListenerLimits;
import java.util.HashMap;
import java.util.Map;
import java.util.function.LongSupplier;

/**
 * How many calls there may be from one address, and for how long a connection may be of no use.
 * Callers of one address can't tell from it what others do. From any thread.
 */
final class PeerLimits {
  private static final double NS_PER_S = 1e9;

  /** One address, and the calls it has left. */
  private static final class Usage {
    double callsLeft;
    long countedNs;
  }

  private final ListenerLimits limits;
  private final LongSupplier clock;
  private final Map<String, Usage> byAddress = new HashMap<>();

  PeerLimits(ListenerLimits limits, LongSupplier clock) {
    this.limits = limits;
    this.clock = clock;
  }

  /** Forgets addresses that have all their calls again. */
  synchronized void sweep() {
    long now = clock.getAsLong();
    byAddress.values().removeIf(usage -> now - usage.countedNs > NS_PER_S);
  }

  /** Whether another call from an address is to be read. */
  boolean mayCall(String address) {
    if (limits.callsPerSecond() == 0) {
      return true;
    }
    synchronized (this) {
      long now = clock.getAsLong();
      Usage usage = byAddress.get(address);
      if (usage == null) {
        usage = new Usage();
        usage.callsLeft = limits.callsPerSecond();
        usage.countedNs = now;
        byAddress.put(address, usage);
      }
      double earned = (now - usage.countedNs) / NS_PER_S * limits.callsPerSecond();
      usage.countedNs = now;
      usage.callsLeft = Math.min(limits.callsPerSecond(), usage.callsLeft + earned);
      if (usage.callsLeft < 1) {
        return false;
      }
      usage.callsLeft--;
      return true;
    }
  }

  /** Whether a connection has been of no use for too long. */
  boolean isOver(boolean hasCalled, long idleNs) {
    return hasCalled
        ? limits.idleNs() > 0 && idleNs > limits.idleNs()
        : idleNs > limits.firstCallNs();
  }
}
