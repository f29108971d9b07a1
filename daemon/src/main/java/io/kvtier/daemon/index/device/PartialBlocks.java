package io.kvtier.daemon.index.device;

import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.Operation;
import io.kvtier.daemon.index.session.Operations;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionParts;
import io.kvtier.daemon.index.session.SessionTable;
import io.kvtier.protocol.Status;
import java.util.function.LongSupplier;

/**
 * Blocks that operations put together from copies of their layers: how each begins, becomes whole,
 * or is given up because its further layers do not come. Confined to the index.
 */
public final class PartialBlocks {
  private static final long LOOK_EVERY_NS = 100_000_000;

  private final BlockStore store;
  private final Operations operations;
  private final SessionTable sessions;
  private final DeviceJobs jobs;
  private final LongSupplier clock;
  private final Assemblies assemblies;
  private final int perSessionMax;
  private final long layersWithinNs;
  private long nextLookNs;

  /**
   * Without a block.
   *
   * @param most how many blocks there can be
   */
  PartialBlocks(IndexCore core, SessionParts parts, BlockStore store, DeviceJobs jobs, int most) {
    this.store = store;
    operations = parts.operations();
    sessions = parts.sessions();
    this.jobs = jobs;
    clock = core.clock();
    assemblies = new Assemblies(most, core.limits().sessionsMax());
    perSessionMax = core.limits().holdsPerSessionMax();
    layersWithinNs = core.limits().times().leaseNs();
  }

  /**
   * Begins to put a fresh block together, for a place.
   *
   * @return false when the session, or the daemon, has too many such blocks
   */
  public boolean begin(Session session, Operation operation, int place, int block) {
    Region region = jobs.of(operation).region;
    int assembly =
        region == null || assemblies.size(session) >= perSessionMax
            ? Assemblies.NONE
            : assemblies.begin(block, session, region.layout.layers());
    if (assembly != Assemblies.NONE) {
      attach(operation, place, assembly);
    }
    return assembly != Assemblies.NONE;
  }

  /**
   * Adds a place with further layers of a block that the session has begun to put together.
   *
   * @return false when the session has begun no such block
   */
  public boolean join(Session session, Operation operation, int place, int block) {
    int assembly = assemblies.find(block, session);
    if (assembly == Assemblies.NONE || assemblies.isFailed(assembly)) {
      return false;
    }
    attach(operation, place, assembly);
    return true;
  }

  private void attach(Operation operation, int place, int assembly) {
    jobs.of(operation).assembly[place] = assembly;
    assemblies.addUsers(assembly, 1);
    assemblies.setEnd(assembly, clock.getAsLong() + layersWithinNs);
  }

  /** A place's layers will not come: the block can't be whole. */
  public void leave(Operation operation, int place) {
    int assembly = jobs.of(operation).assembly[place];
    assemblies.addUsers(assembly, -1);
    assemblies.fail(assembly);
    settle(assembly, operations.sessionOf(operation));
  }

  /**
   * The copies of a place's layers are over, well or not.
   *
   * @return whether the block is whole
   */
  boolean copied(DeviceJob job, int place, Status status) {
    int assembly = job.assembly[place];
    assemblies.addUsers(assembly, -1);
    if (status == Status.OK) {
      assemblies.arrived(assembly, job.firstLayer, job.endLayer);
    } else {
      assemblies.fail(assembly);
    }
    return assemblies.isWhole(assembly) && assemblies.isUnused(assembly);
  }

  /**
   * Completes the block of a place that is whole, or drops one that failed; any other block waits.
   */
  void settle(Operation operation, DeviceJob job, int place) {
    settle(job.assembly[place], operations.sessionOf(operation));
  }

  private void settle(int assembly, Session session) {
    if (!assemblies.isUnused(assembly)) {
      return;
    }
    int block = assemblies.block(assembly);
    if (assemblies.isWhole(assembly)) {
      assemblies.end(assembly, session);
      store.arrived(block);
    } else if (assemblies.isFailed(assembly)) {
      assemblies.end(assembly, session);
      if (store.first().state(block) == CopyState.RESERVED) {
        store.abandon(block);
      }
    }
  }

  /** Drops the blocks that a session has begun to put together. */
  void close(Session session) {
    for (int one = 0; one < assemblies.highWater() && assemblies.size(session) > 0; one++) {
      if (assemblies.isOf(one, session)) {
        assemblies.fail(one);
        settle(one, session);
      }
    }
  }

  /** Drops blocks of which no further layers come. */
  void checkTime(long nowNs) {
    if (nowNs < nextLookNs) {
      return;
    }
    nextLookNs = nowNs + LOOK_EVERY_NS;
    for (int one = 0; one < assemblies.highWater() && assemblies.size() > 0; one++) {
      if (assemblies.isOverdue(one, nowNs)) {
        assemblies.fail(one);
        settle(one, sessions.owner(assemblies.sessionIndex(one)));
      }
    }
  }

  /** Whether any block waits for layers, which could come too late. */
  boolean hasDeadlines() {
    return assemblies.size() > 0;
  }
}
