package io.kvtier.tiers.object.janitor;

import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.object.ObjectNames;
import io.kvtier.tiers.object.StoredObject;
import io.kvtier.tiers.transfer.Transfer;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Keeps the store below the cap. A pass lists all objects, deletes the objects of each page that
 * are due, and enters the others in a histogram of ages. The histogram says which ages are due in
 * the next pass. The first pass deletes nothing, and the last pass leaves no more than the cap. So
 * a run remembers no single objects, and the time of an object's last write is new when the object
 * is deleted.
 *
 * <p>An object can still be used or written between the list and the deletion. Its reader gets
 * whole bytes or a miss, and its writer finds a miss later. A further question for each object
 * would take a thousand times the calls, and would only make that time shorter.
 */
final class CollectRun implements JanitorRun {
  /** Writers that are faster than these passes are faster than a further pass, too. */
  private static final int PASSES_MAX = 4;

  private static final AgeHistogram.Oldest NOTHING = new AgeHistogram.Oldest(Integer.MAX_VALUE, 0);

  private final ObjectJanitor.Options options;
  private final ObjectLease lease;
  private final AgeHistogram histogram = new AgeHistogram();
  private final Transfer parsed = new Transfer(0);
  private long nowMs;
  private long ofBucketLeft;

  CollectRun(ObjectJanitor.Options options, ObjectLease lease) {
    this.options = options;
    this.lease = lease;
  }

  @Override
  public void run(JanitorCalls calls, Tally tally) throws RunEnd {
    if (!lease.acquire(calls)) {
      throw new RunEnd(
          JanitorReport.State.BUSY,
          "another node collects" + (lease.other().isEmpty() ? "" : ": " + lease.other()));
    }
    // One time for all passes, so that an object's bucket is the same in each.
    nowMs = lease.storeTimeMs();
    removeUnfinished(calls, tally);
    AgeHistogram.Oldest due = NOTHING;
    for (int pass = 1; due != null; pass++) {
      UseTable uses = UseTable.read(calls, options.uses().max(), nowMs - options.uses().keptMs());
      tally.uses(uses);
      pass(calls, tally, uses, due);
      delete(calls, uses.outdated());
      due = pass < PASSES_MAX ? nextDue(tally) : null;
    }
    long left = tally.amount(JanitorCount.LEFT).bytes();
    if (options.cap().bytes() > 0 && left > options.cap().bytes()) {
      tally.note(
          left
              - options.cap().bytes()
              + " bytes above object.bytes are left: blocks within object.gc_grace stay, or writers are"
              + " faster than this run");
    }
  }

  /** Not every server knows uploads in parts, nor is everybody allowed to see them. */
  private void removeUnfinished(JanitorCalls calls, Tally tally) throws RunEnd {
    try {
      tally.unfinished(calls.removeUnfinished(nowMs - options.unfinishedMs()));
    } catch (RunEnd e) {
      if (e.state() != JanitorReport.State.FAILED) {
        throw e;
      }
      tally.note(e.reason());
    }
  }

  /** The ages that are due in the next pass; null for no further pass. */
  private AgeHistogram.@Nullable Oldest nextDue(Tally tally) {
    JanitorReport.Amount left = tally.amount(JanitorCount.LEFT);
    boolean allYoung = tally.amount(JanitorCount.YOUNG).objects() == left.objects();
    return options.cap().bytes() == 0 || left.bytes() <= options.cap().bytes() || allYoung
        ? null
        : histogram.oldest(left.bytes() - options.cap().lowBytes());
  }

  private void pass(JanitorCalls calls, Tally tally, UseTable uses, AgeHistogram.Oldest due)
      throws RunEnd {
    histogram.clear();
    ofBucketLeft = due.ofBucket();
    BlockWalk.walk(
        calls,
        "",
        tally,
        blocks -> {
          List<StoredObject> doomed = new ArrayList<>();
          for (StoredObject block : blocks) {
            if (!stays(block, uses, due, tally)) {
              doomed.add(block);
            }
          }
          delete(calls, BlockWalk.names(doomed));
          tally.add(JanitorCount.DELETED, doomed.size(), BlockWalk.bytes(doomed));
        });
  }

  /** Decides on a block, and counts it where it stays. */
  private boolean stays(StoredObject block, UseTable uses, AgeHistogram.Oldest due, Tally tally) {
    long ageMs = nowMs - lastUseMs(block, uses);
    // The store may have cut the time of the write to its second.
    boolean young = ageMs < options.cap().graceMs() + ObjectLease.GRAIN_MS;
    int bucket = AgeHistogram.bucket(ageMs);
    if (!young) {
      if (bucket > due.bucket()) {
        return false;
      }
      if (bucket == due.bucket() && ofBucketLeft > 0) {
        ofBucketLeft -= block.bytes();
        return false;
      }
      histogram.add(bucket, block.bytes());
    } else {
      tally.add(JanitorCount.YOUNG, 1, block.bytes());
    }
    tally.add(JanitorCount.LEFT, 1, block.bytes());
    return true;
  }

  private long lastUseMs(StoredObject block, UseTable uses) {
    if (!ObjectNames.readBlock(block.name(), parsed)) {
      throw new IllegalStateException(block + " is no block");
    }
    long used = uses.lastUseMs(UseLogDescriptor.digest(ObjectKey.of(parsed)));
    return Math.max(block.modifiedMs(), used);
  }

  private void delete(JanitorCalls calls, List<String> names) throws RunEnd {
    if (!lease.keep(calls)) {
      throw new RunEnd(JanitorReport.State.FAILED, "the lease was lost: another node collects now");
    }
    if (!names.isEmpty()) {
      calls.delete(names);
    }
  }
}
