package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.ClassQueues;
import io.kvtier.daemon.index.source.ObjectLine;
import io.kvtier.daemon.index.source.ObjectParts;
import io.kvtier.daemon.index.source.Sources;
import io.kvtier.daemon.index.space.FirstRows;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierParts;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.daemon.index.transfer.LowerTier;
import io.kvtier.daemon.index.transfer.LowerTiers;
import io.kvtier.daemon.index.transfer.Mover;
import io.kvtier.daemon.index.transfer.Settlement;
import io.kvtier.protocol.RequestDescriptor;
import java.util.ArrayList;
import java.util.List;

/**
 * The parts that move copies of blocks, and their work in each round: finished transfers are
 * settled, and waiting work is started. Confined to the index.
 */
final class Moves {
  private final TierStack stack;
  private final LowerTiers lower;
  private final Mover mover;
  private final FirstRows firstRows;
  private final ObjectLine objects;
  private final Sources sources;
  private final MoveParts shared;
  private final ClassQueues fresh;
  private final Uploads uploads;
  private final Evictions evictions;
  private final Promotions promotions;
  private final Records records;
  private final Arrivals arrivals;
  private final Loads loads;
  private final Fetches fetches;
  private final Commits commits;
  private final Audits audits;
  private final Scrubbers scrubbers;
  private final List<Trials> trials = new ArrayList<>();

  /**
   * The parts without blocks.
   *
   * @param recordsMax the most records of each tenant
   */
  Moves(
      StoreParts parts,
      MoveParts shared,
      FirstRows firstRows,
      ObjectLine objects,
      Sources sources,
      int[] recordsMax) {
    this.shared = shared;
    this.firstRows = firstRows;
    this.objects = objects;
    this.sources = sources;
    stack = shared.stack();
    lower = shared.lower();
    mover = shared.mover();
    TierParts.First top = parts.tiers().first();
    ObjectParts store = parts.tiers().objects();
    ResidentTier first = stack.first();
    int classes = first.slots().classesMax();
    int waitingMax = parts.core().limits().holdsMax();
    fresh = new ClassQueues(classes, 1, waitingMax);
    ClassQueues promoted = new ClassQueues(classes, RequestDescriptor.PRIORITY_LOW + 1, waitingMax);
    uploads = new Uploads(shared, objects, store);
    evictions = new Evictions(shared, objects, uploads, top.freeTarget(), fresh, promoted);
    promotions = new Promotions(shared, evictions, parts.isAwaited(), promoted);
    records = new Records(shared, evictions, uploads, recordsMax);
    List<Ingestion> targets = new ArrayList<>(evictions.ingestions());
    targets.add(uploads.ingestion());
    arrivals = new Arrivals(shared, targets, evictions::storeEarly);
    loads = new Loads(shared, sources, promotions, arrivals);
    fetches = new Fetches(shared, sources, records, promotions, arrivals);
    commits = new Commits(shared, top, arrivals);
    audits = new Audits(shared);
    scrubbers = new Scrubbers(shared);
    for (LowerTier one : lower) {
      Ingestion.Target target = evictions.ingestion(one.tier()).target();
      trials.add(new Trials(parts.core().directory(), first, target, one.lanes()));
    }
  }

  ClassQueues fresh() {
    return fresh;
  }

  Uploads uploads() {
    return uploads;
  }

  Evictions evictions() {
    return evictions;
  }

  Promotions promotions() {
    return promotions;
  }

  Records records() {
    return records;
  }

  Arrivals arrivals() {
    return arrivals;
  }

  Loads loads() {
    return loads;
  }

  Fetches fetches() {
    return fetches;
  }

  Commits commits() {
    return commits;
  }

  Audits audits() {
    return audits;
  }

  Scrubbers scrubbers() {
    return scrubbers;
  }

  /** Settles finished transfers. */
  int collect() {
    int count = mover.collect();
    for (Settlement one = mover.poll(); one != null; one = mover.poll()) {
      settle(one);
    }
    return count + fetches.collect() + uploads.collect();
  }

  private void settle(Settlement one) {
    switch (one.kind) {
      case CHECKSUM -> commits.finish(one.block, one.checksum, one.status);
      case AUDIT -> audits.finish(one.block, one.checksum, one.status);
      case LOAD -> loads.onLoaded(one);
      case SCRUB -> scrubbers.onScrubbed(one);
      case STORE -> evictions.onStored(one);
      case FETCH -> fetches.onFetched(one);
      case UPLOAD -> uploads.onUploaded(one.block, one.status, one.isEviction);
      case SPILL -> uploads.onSpilled(one.block, stack.at(one.from), one.status, one.isRead);
    }
  }

  /**
   * Starts the work that waits: checksums, promotions, stores, uploads, and evictions ahead of
   * need.
   */
  void maintain(long nowNs) {
    lower.advance(nowNs);
    for (Trials one : trials) {
      one.advance();
    }
    firstRows.advance();
    commits.advance();
    audits.advance();
    promotions.advance();
    for (Ingestion one : evictions.ingestions()) {
      one.advance();
    }
    uploads.advance();
    objects.advance();
    sources.advance();
    evictions.advance();
    // Scrubbers come last: they use only the room that others leave in the pipelines.
    scrubbers.advance(nowNs);
  }

  /** Whether transfers wait to be settled. */
  boolean hasFinished() {
    return mover.hasFinished() || sources.hasFound() || objects.hasConfirmed();
  }

  /** Whether nothing is under way, and nothing waits to be started. */
  boolean isIdle() {
    return mover.isIdle()
        && commits.waiting() == 0
        && audits.waiting() == 0
        && promotions.size() == 0
        && evictions.waiting() == 0
        && uploads.waiting() == 0
        && sources.waiting() == 0;
  }

  /** Memory of the policies that say which blocks move down, in bytes. */
  long policyBytes() {
    long bytes = uploads.ingestion().policyBytes();
    for (Ingestion one : evictions.ingestions()) {
      bytes += one.policyBytes();
    }
    return bytes;
  }

  /** The state in words, for whoever looks for a defect. */
  @Override
  public String toString() {
    StringBuilder out = new StringBuilder(256);
    out.append("checksums ").append(mover.checksumsInFlight());
    out.append(", below ").append(lower.inFlight());
    out.append(", backlog ").append(commits.waiting());
    out.append(", promotions ").append(promotions.size());
    out.append(", ingestion ").append(evictions.waiting());
    out.append(", objects ").append(mover.outside().inFlight());
    out.append(" and waiting ").append(uploads.waiting() + sources.waiting());
    out.append(lower.isAnyOutOfBudget() ? ", no budget" : "").append(lower);
    return out.append(new StoreText(shared, fresh)).toString();
  }
}
