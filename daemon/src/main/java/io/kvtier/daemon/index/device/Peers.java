package io.kvtier.daemon.index.device;

import io.kvtier.daemon.index.core.Accounts;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.session.CompletionWriter;
import io.kvtier.daemon.index.session.Operation;
import io.kvtier.daemon.index.session.Operations;
import io.kvtier.daemon.index.session.Request;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionParts;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.Words;
import org.jspecify.annotations.Nullable;

/**
 * ADVERTISE and REVOKE, and the gets and lookups of advertised blocks: such a block is in an
 * engine's region, and is copied to another region without the host. Confined to the index.
 *
 * <p>A block is lent until the copy of the get that took it is over. A REVOKE is answered when none
 * of its blocks is lent: the owner may then use the memory again. A get whose copy failed, or was
 * given up for a REVOKE before it began, goes on as if nobody had advertised the block.
 */
public final class Peers {
  /** Serves gets that no region serves after all. */
  public interface Tiers {
    /**
     * Gets the block whose key the directory sought last from the tiers.
     *
     * @param job the job of the operation
     * @param block the block, or {@link Directory#NONE}
     */
    void getInstead(
        Operation operation, DeviceJob job, int place, int block, int group, int keyBytes);
  }

  private final Directory directory;
  private final Operations operations;
  private final DeviceJobs jobs;
  private final CompletionWriter writer;
  private final Counters counters;
  private final Accounts accounts;
  private final Advertisements advertised;
  private final Regions regions;
  private @Nullable DeviceMoves moves;
  private @Nullable Tiers tiers;

  /**
   * Nothing is advertised yet.
   *
   * @param most how many blocks can be advertised
   */
  Peers(IndexCore core, SessionParts parts, DeviceJobs jobs, Regions regions, int most) {
    directory = core.directory();
    counters = core.counters();
    accounts = core.accounts();
    operations = parts.operations();
    writer = parts.writer();
    this.jobs = jobs;
    this.regions = regions;
    advertised = new Advertisements(directory, most);
  }

  public Advertisements advertised() {
    return advertised;
  }

  /** Sets the part that copies, and the part that serves gets that no region could serve. */
  void connect(DeviceMoves copies, Tiers instead) {
    moves = copies;
    tiers = instead;
  }

  /** Whether no block is advertised. */
  public boolean isEmpty() {
    return advertised.isEmpty();
  }

  // ---- the owner's side

  /** Advertises blocks of a region that is open; answered when other GPUs see it. */
  void advertise(Session session, Request request, Region region) throws ProtocolViolation {
    String why = problem(request, region);
    if (why != null) {
      writer.refuse(session, request, Status.INVALID_ARGUMENT, why);
      return;
    }
    Operation operation = operations.begin(session, request, request.count);
    if (operation == null) {
      return;
    }
    for (int i = 0; i < request.count; i++) {
      // The client can still write here: read once, checked, then used.
      int block = Words.getInt(request.segment, request.target(i));
      if (block < 0 || block >= region.layout.blocks()) {
        operation.outcome = Status.INVALID_ARGUMENT;
        operation.refusal = region.noBlock(block);
        operations.endOrWait(session, operation, request);
        return;
      }
      operation.block[i] = block;
    }
    region.rank = (int) request.argument;
    for (int i = 0; i < request.count; i++) {
      Status status = advertiseOne(request, region, i, operation.block[i]);
      boolean stands = status == Status.OK || status == Status.EXISTS;
      Operations.decide(operation, i, status, stands ? TierId.GPU : TierId.NONE);
    }
    if (!region.isSeen) {
      region.sharing.add(operation);
      operation.open = 1;
    }
    if (!region.isShared) {
      region.isShared = true;
      regions.share(region);
    }
    operations.endOrWait(session, operation, request);
  }

  private static @Nullable String problem(Request request, Region region) {
    if (request.namespaceId != region.namespaceId) {
      return region.otherNamespace();
    }
    return null;
  }

  private Status advertiseOne(Request request, Region region, int i, int block) {
    if (region.share.advertised >= region.share.holdsMax) {
      return Status.BUSY;
    }
    var _ = directory.find(request, i);
    Status status =
        advertised.add(region, block, request.namespaceId, request.group, request.keyBytes);
    region.share.advertised += status == Status.OK ? 1 : 0;
    return status;
  }

  /** Takes back blocks that a region advertises; answered when no copy of them is under way. */
  void revoke(Session session, Request request, Region region) throws ProtocolViolation {
    if (request.namespaceId != region.namespaceId) {
      writer.refuse(session, request, Status.INVALID_ARGUMENT, region.otherNamespace());
      return;
    }
    Operation operation = operations.begin(session, request, request.count);
    if (operation == null) {
      return;
    }
    // The client uses the memory again after the answer: there is no answer before the copies are
    // over.
    operation.deadlineNs = Long.MAX_VALUE;
    for (int i = 0; i < request.count; i++) {
      var _ = directory.find(request, i);
      int one = advertised.findOf(region, request.namespaceId, request.group, request.keyBytes);
      Operations.decide(operation, i, revokeOne(operation, i, one), TierId.NONE);
    }
    if (operation.open > 0) {
      // One more open place, so that the operation does not end in the middle of this method.
      operation.open++;
      giveUpRevoked();
      operation.open--;
    }
    operations.endOrWait(session, operation, request);
  }

  private Status revokeOne(Operation operation, int place, int one) {
    if (one == Advertisements.NONE) {
      return Status.MISS;
    }
    if (advertised.waiter(one) != Advertisements.NONE) {
      return Status.BUSY;
    }
    if (advertised.revoke(one)) {
      free(one);
    } else {
      advertised.setWaiter(one, operation.poolIndex);
      operation.block[place] = one;
      operation.open++;
    }
    return Status.OK;
  }

  private void giveUpRevoked() {
    DeviceMoves copies = moves;
    if (copies != null) {
      copies.giveUpRevoked();
    }
  }

  private void free(int one) {
    advertised.owner(one).share.advertised--;
    advertised.free(one);
  }

  /** Takes back all blocks of a region that is about to be closed. */
  void withdraw(Region region) {
    int one = region.firstAdvertised;
    while (one != Advertisements.NONE) {
      int next = advertised.nextOfRegion(one);
      if (advertised.revoke(one)) {
        free(one);
      }
      one = next;
    }
    if (region.lent > 0) {
      giveUpRevoked();
    }
  }

  /** An ADVERTISE or a REVOKE ends before its time. */
  void forget(Operation operation) {
    if (operation.verb == Verb.ADVERTISE) {
      for (Region region : regions.table().all()) {
        boolean _ = region.sharing.remove(operation);
      }
      return;
    }
    for (int i = 0; i < operation.count && operation.open > 0; i++) {
      int one = operation.block[i];
      // The advertisement may be another block's by now.
      if (one != Advertisements.NONE && advertised.waiter(one) == operation.poolIndex) {
        advertised.setWaiter(one, Advertisements.NONE);
      }
    }
  }

  // ---- the others' side

  /**
   * Gets the block whose key was sought last from another region.
   *
   * @return false when no region that can be reached has the block
   */
  public boolean get(Operation operation, int place, Request request) {
    DeviceJob job = jobs.of(operation);
    Region getter = job.region;
    DeviceMoves copies = moves;
    if (getter == null || copies == null) {
      return false;
    }
    int one = advertised.findFor(getter, request.namespaceId, request.group, request.keyBytes);
    if (one == Advertisements.NONE) {
      return false;
    }
    advertised.lend(one);
    job.lent[place] = one;
    job.lentPlaces++;
    operation.tier[place] = (byte) TierId.GPU.code();
    operation.open++;
    copies.ready(operation, job, place);
    return true;
  }

  /** The last copy of a place is over whose block was to come from another region. */
  void onCopied(Operation operation, DeviceJob job, int place, Status status) {
    int one = job.lent[place];
    job.lent[place] = Advertisements.NONE;
    job.lentPlaces--;
    Tiers instead = tiers;
    // If the owner has gone, the bytes that were copied may be wrong.
    if (status == Status.OK && !advertised.owner(one).isLeft()) {
      counters.add(Counter.HITS_GPU, 1);
      accounts.found(operation.namespaceId, 1, operation.beganNs);
      Operations.decide(operation, place, Status.OK, TierId.GPU);
    } else if (job.cut == Status.OK && instead != null) {
      operation.tier[place] = (byte) TierId.NONE.code();
      instead.getInstead(
          operation,
          job,
          place,
          advertised.find(one),
          advertised.group(one),
          advertised.keyBytes(one));
    } else {
      Status failure = status != Status.OK ? status : Status.UNAVAILABLE;
      Operations.decide(operation, place, job.cut != Status.OK ? job.cut : failure, TierId.NONE);
      int misses = job.cut == Status.DEADLINE ? 1 : 0;
      counters.add(Counter.MISSES, misses);
      accounts.missed(operation.namespaceId, misses, operation.beganNs);
    }
    Region owner = advertised.owner(one);
    if (advertised.giveBack(one)) {
      int waiter = advertised.waiter(one);
      free(one);
      if (waiter != Advertisements.NONE) {
        operations.closePlace(operations.at(waiter));
      }
    }
    regions.closeUnused(owner);
    operations.closePlace(operation);
  }

  /**
   * Takes back the block whose key was sought last, which is deleted; returns whether it was
   * advertised.
   */
  public boolean delete(Request request) {
    return advertised.delete(request.namespaceId, request.group, request.keyBytes);
  }

  /** Takes back all blocks of a namespace, which are deleted. */
  public void deleteAll(int namespaceId) {
    if (!advertised.isEmpty()) {
      advertised.deleteAll(namespaceId);
    }
  }

  /**
   * The region that has the longest prefix of a request's keys; null when no region has the first
   * key. {@link Advertisements#prefix} says how long it is.
   */
  @Nullable
  public Region longest(Request request) {
    if (advertised.isEmpty()) {
      return null;
    }
    advertised.beginPrefix();
    boolean goesOn = true;
    for (int i = 0; i < request.count && goesOn; i++) {
      var _ = directory.find(request, i);
      goesOn = advertised.goesOn(request.namespaceId, request.group, request.keyBytes);
    }
    return advertised.takeLongest();
  }
}
