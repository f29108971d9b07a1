package io.kvtier.daemon.index.report;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.device.Devices;
import io.kvtier.daemon.index.lane.Lane;
import io.kvtier.daemon.index.lane.Lanes;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.space.Drops;
import io.kvtier.daemon.index.transfer.LowerTier;
import io.kvtier.daemon.index.verbs.Refusals;
import io.kvtier.protocol.Counter;
import io.kvtier.tiers.gpu.DevicePipeline;
import java.util.function.BooleanSupplier;

/**
 * Checks the parts of the index from time to time, and keeps the last {@link HealthReport}. The
 * index's thread refreshes the report; any thread may read it.
 */
public final class HealthWatch {
  /**
   * A series of events, such as refused puts, which ends when no event has followed for a while.
   */
  private static final class Spell {
    private long seen;
    private long untilNs;
    private long size;

    /**
     * The number of events in the series, given the count of all events; 0 when the series has
     * ended.
     */
    long of(long count, long nowNs) {
      if (count != seen) {
        size += count - seen;
        seen = count;
        untilNs = nowNs + RECENT_NS;
      } else if (size > 0 && nowNs - untilNs >= 0) {
        size = 0;
      }
      return size;
    }
  }

  /** How long after the last refused put or lost block the daemon still counts as degraded. */
  public static final long RECENT_NS = 10_000_000_000L;

  private static final Refusals.Lack[] LACKS = Refusals.Lack.values();
  private static final Drops.Reason[] REASONS = Drops.Reason.values();

  private final BlockStore store;
  private final Devices devices;
  private final Refusals refusals;
  private final Counters counters;
  private final BooleanSupplier drains;
  private final Spell[] lacks = spells(LACKS.length);
  private final Spell[] drops = spells(REASONS.length);
  private final Spell refusedByStore = new Spell();
  private final Spell incomplete = new Spell();
  private volatile HealthReport latest = HealthReport.WELL;

  /**
   * All is well until the first check.
   *
   * @param drains whether an operator stopped new blocks
   */
  public HealthWatch(
      BlockStore store,
      Devices devices,
      Refusals refusals,
      Counters counters,
      BooleanSupplier drains) {
    this.store = store;
    this.devices = devices;
    this.refusals = refusals;
    this.counters = counters;
    this.drains = drains;
  }

  private static Spell[] spells(int count) {
    Spell[] spells = new Spell[count];
    for (int i = 0; i < count; i++) {
      spells[i] = new Spell();
    }
    return spells;
  }

  /** The report of the last check; from any thread. */
  public HealthReport latest() {
    return latest;
  }

  /** Checks all parts; on the index's thread. */
  @SuppressWarnings("EnumOrdinal") // places in arrays of this class
  public HealthReport refresh(long nowNs) {
    Troubles troubles = new Troubles();
    troubles.drain(drains.getAsBoolean());
    for (Refusals.Lack lack : LACKS) {
      troubles.refusedPuts(lack, lacks[lack.ordinal()].of(refusals.count(lack), nowNs));
    }
    for (Drops.Reason reason : REASONS) {
      troubles.lost(reason, drops[reason.ordinal()].of(store.drops().count(reason), nowNs));
    }
    troubles.incomplete(incomplete.of(counters.get(Counter.PARTIAL_EXPIRED), nowNs));
    troubles.ledger(store.first().traits().name(), store.firstTrouble());
    for (LowerTier lower : store.lower()) {
      if (lower.tier().isConfigured()) {
        Lanes lanes = lower.lanes();
        for (int i = 0; i < lanes.count(); i++) {
          Lane lane = lanes.at(i);
          troubles.device(
              lower.tier().traits().name(), i, lane.state(), lane.cause(), lane.failure(nowNs));
        }
      }
    }
    troubles.keeper(counters.get(Counter.GAUGE_KEEPER_MISSING) != 0);
    if (store.objects().isConfigured()) {
      troubles.object(store.objects().report());
      troubles.refusedByStore(refusedByStore.of(store.uploads().refused(), nowNs));
    }
    for (DevicePipeline pipeline : devices.pipelines()) {
      String fence = pipeline.fence();
      if (fence != null) {
        troubles.gpu(pipeline.ordinal(), fence);
      }
    }
    HealthReport now = new HealthReport(troubles.all());
    latest = now;
    return now;
  }
}
