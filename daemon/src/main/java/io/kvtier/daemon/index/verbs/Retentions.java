package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.CompletionWriter;
import io.kvtier.daemon.index.session.Request;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import java.util.function.IntConsumer;
import java.util.function.LongSupplier;

/**
 * RETAIN: blocks stay on this node until the lifetimes end that clients gave them. Such a block is
 * no victim in the only tier that has it. It is written to the tier below early, so that it does
 * not take space in the first tier for long. A retention belongs to the tenant: it outlives its
 * session, but not the daemon. Confined to the index.
 */
public final class Retentions {
  private final Directory directory;
  private final Namespaces namespaces;
  private final BlockStore store;
  private final CompletionWriter writer;
  private final Counters counters;
  private final LongSupplier clock;
  private final long lifetimeNsMax;
  private final IntConsumer over = this::over;
  private boolean isBusy;

  Retentions(IndexCore core, BlockStore store, CompletionWriter writer) {
    directory = core.directory();
    namespaces = core.namespaces();
    counters = core.counters();
    clock = core.clock();
    lifetimeNsMax = core.limits().times().retentionNsMax();
    this.store = store;
    this.writer = writer;
  }

  /** Retains all blocks of a request that are here or on their way, or ends their retentions. */
  void retain(Session session, Request request) throws ProtocolViolation {
    long lifetimeNs = request.argument;
    Namespaces.Namespace namespace = namespaces.byId(request.namespaceId);
    if (lifetimeNs < 0 || lifetimeNs > lifetimeNsMax) {
      writer.refuse(
          session,
          request,
          Status.INVALID_ARGUMENT,
          "the lifetime of a retention is "
              + Long.toUnsignedString(lifetimeNs)
              + " ns, expected at most "
              + lifetimeNsMax
              + " ns (limits.retention_max)");
      return;
    }
    if (namespace == null) {
      writer.refuse(session, request, Status.NAMESPACE_UNKNOWN, "the namespace is gone");
      return;
    }
    int more = lifetimeNs == 0 ? 0 : notYetRetained(request);
    String why = store.retentionQuota().whyNot(namespace.tenant(), more, namespace.blockBytes());
    if (more > 0 && why != null) {
      counters.add(Counter.RETENTIONS_REFUSED, more);
      writer.refuse(session, request, Status.OVER_QUOTA, why);
      return;
    }
    long endNs = clock.getAsLong() + lifetimeNs;
    writer.begin(session, request);
    for (int i = 0; i < request.count; i++) {
      int block = directory.findInOrder(request, i);
      if (block == Directory.NONE) {
        writer.add(Status.MISS, TierId.NONE);
        continue;
      }
      if (lifetimeNs > 0) {
        directory.retain(block, endNs);
        store.evictions().storeEarly(block);
      } else if (directory.has(Directory.FLAG_RETAINED, block)) {
        directory.endRetention(block);
      }
      writer.add(store.isVisible(block) ? Status.OK : Status.PENDING, TierId.NONE);
    }
    writer.end(request, 0);
  }

  /** How many blocks of a request would be retained by it; a key that comes twice counts twice. */
  private int notYetRetained(Request request) {
    int count = 0;
    for (int i = 0; i < request.count; i++) {
      int block = directory.findInOrder(request, i);
      if (block != Directory.NONE && !directory.has(Directory.FLAG_RETAINED, block)) {
        count++;
      }
    }
    return count;
  }

  private void over(int block) {
    directory.endRetention(block);
    counters.add(Counter.RETENTIONS_EXPIRED, 1);
  }

  /** Ends retentions whose lifetimes are over, some at a time; called every few milliseconds. */
  public void checkTime(long nowNs) {
    isBusy = directory.retentions().expire(nowNs, over) > 0;
  }

  /** Whether further lifetimes may be over already. */
  public boolean isBusy() {
    return isBusy;
  }

  /** The counts of retained blocks, for the counters. */
  public void publishGauges() {
    long bytes = 0;
    for (int tenant = 0; tenant < namespaces.tenants().count(); tenant++) {
      bytes += directory.retentions().bytesOf(tenant);
    }
    counters.set(Counter.GAUGE_RETAINED_BLOCKS, directory.retentions().count());
    counters.set(Counter.GAUGE_RETAINED_BYTES, bytes);
  }
}
