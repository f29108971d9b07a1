package io.kvtier.daemon.index;

import io.kvtier.policies.AdmissionPolicies;
import io.kvtier.policies.AdmissionPolicy;
import io.kvtier.policies.AdmissionPolicy.Occasion;
import io.kvtier.protocol.Counter;

/**
 * When blocks of the host tier are copied to SSD: the admission policy says which, at their
 * insertion, at a use, or when they fall out. What is admitted early is written as soon as the
 * pipeline has room for it.
 */
final class Ingestion {
  private static final int BACKLOG_MAX = 1 << 16;

  private final BlockStore store;
  private final Directory directory;
  private final TierLine host;
  private final TierLine ssd;
  private final Counters counters;
  private final LongQueue backlog = new LongQueue(BACKLOG_MAX);
  private AdmissionPolicy admission;
  private String admissionName;

  Ingestion(
      BlockStore store,
      Directory directory,
      TierLine host,
      TierLine ssd,
      String admissionName,
      Counters counters) {
    this.store = store;
    this.directory = directory;
    this.host = host;
    this.ssd = ssd;
    this.counters = counters;
    this.admissionName = admissionName;
    admission = newAdmission(admissionName);
  }

  private AdmissionPolicy newAdmission(String name) {
    return AdmissionPolicies.create(name, ssd.blocksMax());
  }

  String admissionName() {
    return admissionName;
  }

  long policyBytes() {
    return admission.metadataBytes();
  }

  /**
   * Another admission policy takes over, which has seen nothing yet.
   *
   * @throws IllegalArgumentException when there is no such policy
   */
  void swapAdmission(String name) {
    admission = newAdmission(name);
    admissionName = name;
  }

  /** A block came into the host tier. */
  void inserted(int block) {
    directory.clearHits(block);
    if (ssd.isConfigured()) {
      consider(block, Occasion.INSERTED, 0);
    }
  }

  /** A block in the host tier was used. */
  void used(int block) {
    if (ssd.isConfigured()) {
      consider(block, Occasion.USED, directory.addHit(block));
    }
  }

  private void consider(int block, Occasion occasion, int hits) {
    if (ssd.state(block) == CopyState.NONE
        && store.hasSsdClass(block)
        && admission.admits(occasion, directory.fingerprint(block), hits, isFull(block))) {
      // Without a place in the backlog it is asked again at its next use, or when it falls out.
      boolean ignored = backlog.offer(block);
    }
  }

  /** Whether a block that falls out of the host tier goes to SSD. */
  boolean admitsEvicted(int block) {
    boolean admitted =
        admission.admits(
            Occasion.EVICTED, directory.fingerprint(block), directory.hits(block), isFull(block));
    counters.add(Counter.NOT_ADMITTED, admitted ? 0 : 1);
    return admitted;
  }

  private boolean isFull(int block) {
    return ssd.slots().unassignedRegions() == 0
        && ssd.slots().freeOfClass(store.ssdClass(block)) == 0;
  }

  /** Writes what was admitted early, as far as the pipeline takes it. */
  void advance() {
    while (backlog.size() > 0) {
      int block = (int) backlog.peek();
      // The block may have gone meanwhile, or its number be another's: that one is written for
      // nothing then.
      if (directory.isUsed(block)
          && host.isResident(block)
          && ssd.state(block) == CopyState.NONE
          && store.hasSsdClass(block)
          && !store.startStore(block, false)
          && store.mayStoreSoon()) {
        return;
      }
      var _ = backlog.poll();
    }
  }

  int waiting() {
    return backlog.size();
  }
}
