package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.index.core.Accounts;
import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Limits;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.daemon.index.device.DeviceJob;
import io.kvtier.daemon.index.device.Devices;
import io.kvtier.daemon.index.device.Peers;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.HoldTable;
import io.kvtier.daemon.index.session.Operation;
import io.kvtier.daemon.index.session.Operations;
import io.kvtier.daemon.index.session.Request;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionParts;
import io.kvtier.daemon.index.session.WaiterTable;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.slots.SlotAllocator;
import org.jspecify.annotations.Nullable;

/**
 * ACQUIRE and ONBOARD: leases blocks in memory, and has others loaded. A request whose blocks must
 * be loaded is an operation, which waits for them. Confined to the index.
 */
public final class Acquires implements Peers.Tiers {
  private final Directory directory;
  private final Namespaces namespaces;
  private final BlockStore store;
  private final ResidentTier first;
  private final TierId firstId;
  private final TierTraits.Counts ofFirst;
  private final HoldTable holds;
  private final Operations operations;
  private final WaiterTable firstWaiters;
  private final Devices devices;
  private final Counters counters;
  private final Accounts accounts;
  private final Limits.Times times;
  private final int holdsPerSessionMax;

  /** The number of blocks that the request under way leased at once, and their bytes. */
  private int hitsInMemory;

  private long bytesInMemory;

  Acquires(IndexCore core, SessionParts parts, BlockStore store, Devices devices) {
    directory = core.directory();
    namespaces = core.namespaces();
    counters = core.counters();
    accounts = core.accounts();
    times = core.limits().times();
    holdsPerSessionMax = core.limits().holdsPerSessionMax();
    operations = parts.operations();
    holds = parts.holds();
    firstWaiters = parts.waiters();
    this.store = store;
    first = store.first();
    firstId = first.traits().id();
    ofFirst = first.traits().counts();
    this.devices = devices;
  }

  /** ACQUIRE, or ONBOARD, which leases blocks only until they are copied. */
  void acquire(Session session, Request request) throws ProtocolViolation {
    Operation operation =
        request.verb == Verb.ONBOARD
            ? devices.begin(session, request)
            : operations.begin(session, request, request.count);
    if (operation == null) {
      return;
    }
    long leaseNs =
        request.argument <= 0 ? times.leaseNs() : Math.min(request.argument, times.leaseNsMax());
    boolean noWait = request.has(RequestDescriptor.FLAG_NO_WAIT);
    // A request with FLAG_NO_WAIT waits for no block, so the index would give expected blocks up.
    boolean isExpected = !noWait && request.has(RequestDescriptor.FLAG_EXPECTED);
    // Expected blocks come one after the other: none is given up before the others are there.
    operation.value = (isExpected ? request.deadlineNs : operation.beganNs) + leaseNs;
    boolean leadingRun = request.has(RequestDescriptor.FLAG_LEADING_RUN);
    Namespaces.Namespace namespace = namespaces.byId(request.namespaceId);
    int count = request.count;
    int misses = 0;
    hitsInMemory = 0;
    bytesInMemory = 0;
    boolean hasPeers = operation.isDevice() && !devices.peers().isEmpty();
    int i = 0;
    for (; i < count; i++) {
      int block = directory.findInOrder(request, i);
      if (hasPeers && devices.peers().get(operation, i, request)) {
        continue;
      }
      boolean isFresh = block == Directory.NONE;
      if (isFresh && namespace != null) {
        block =
            isExpected
                ? store
                    .fetches()
                    .expectSought(
                        namespace,
                        request.group,
                        request.keyBytes,
                        request.priority,
                        request.shard,
                        request.deadlineNs)
                : store
                    .fetches()
                    .fetchSought(
                        namespace, request.group, request.keyBytes, request.priority, noWait);
      }
      if (block == Directory.NONE
          || !acquireOne(session, request.priority, noWait, operation, i, block, isFresh)) {
        Operations.decide(operation, i, Status.MISS, TierId.NONE);
        misses++;
        if (leadingRun) {
          break;
        }
      }
    }
    for (int rest = i; rest < count; rest++) {
      Operations.decide(operation, rest, Status.MISS, TierId.NONE);
    }
    counters.add(Counter.ACQUIRE_BLOCKS, Math.min(count, i + 1));
    countMisses(operation, misses);
    countHitsInMemory(operation, namespace);
    if (namespace != null && !operation.isDevice() && hitsInMemory > 0) {
      devices.leased(namespace, hitsInMemory);
    }
    operations.endOrWait(session, operation, request);
  }

  private void countMisses(Operation operation, int misses) {
    counters.add(Counter.MISSES, misses);
    accounts.missed(operation.namespaceId, misses, operation.beganNs);
  }

  private void countHitsInMemory(Operation operation, Namespaces.@Nullable Namespace namespace) {
    if (namespace != null) {
      accounts.found(namespace.id(), hitsInMemory, operation.beganNs);
      counters.add(ofFirst.hits(), hitsInMemory);
      counters.add(ofFirst.readBytes(), bytesInMemory);
    }
  }

  @Override
  public void getInstead(
      Operation operation, DeviceJob job, int place, int known, int group, int keyBytes) {
    Namespaces.Namespace namespace = namespaces.byId(operation.namespaceId);
    int block = known;
    boolean isFresh = block == Directory.NONE;
    if (isFresh && namespace != null) {
      block = store.fetches().fetchSought(namespace, group, keyBytes, job.priority, job.noWait);
    }
    Session session = operations.sessionOf(operation);
    hitsInMemory = 0;
    bytesInMemory = 0;
    if (block == Directory.NONE
        || !acquireOne(session, job.priority, job.noWait, operation, place, block, isFresh)) {
      Operations.decide(operation, place, Status.MISS, TierId.NONE);
      countMisses(operation, 1);
    }
    countHitsInMemory(operation, namespace);
  }

  /** Leases a block, or waits for it; false when it is a miss. */
  private boolean acquireOne(
      Session session,
      int priority,
      boolean noWait,
      Operation operation,
      int place,
      int block,
      boolean isFresh) {
    if (!directory.has(Directory.FLAG_FETCHING, block) && !canRead(operation, block)) {
      return false;
    }
    CopyState inMemory = first.state(block);
    if (inMemory == CopyState.RESIDENT) {
      if (operation.isDevice() && store.isDoubtful(block)) {
        return false;
      }
      if (operation.isDevice() && store.mustVerify(block, SlotAllocator.DAEMON)) {
        verifyFirst(operation, place, block);
      } else {
        leaseInMemory(session, operation, place, block);
      }
      return true;
    }
    ResidentTier stored = store.stack().storedIn(block);
    boolean isFetching = directory.has(Directory.FLAG_FETCHING, block);
    TierId from = isFetching ? sourceOf(block) : stored != null ? stored.traits().id() : firstId;
    switch (inMemory) {
      case STAGING -> {
        if (operation.isDevice()
            && store.hasArrived(block)
            && !store.mustVerify(block, SlotAllocator.DAEMON)) {
          // A block that came from a device and goes to a device never left this process.
          leaseInMemory(session, operation, place, block);
        } else if (noWait) {
          Operations.decide(operation, place, Status.PENDING, from);
        } else if (await(operation, place, block, from)) {
          counters.add(Counter.JOINED, isFresh ? 0 : 1);
        }
        return true;
      }
      case RESERVED, LEAVING -> {
        return false;
      }
      case NONE -> {
        if (stored == null) {
          return false;
        }
      }
      case RESIDENT -> throw new IllegalStateException("a resident block is leased at once");
    }
    // The request waits before the load begins: a load that nobody waits for may be given up.
    if (noWait) {
      boolean coming = store.loads().promote(block, priority, true);
      Operations.decide(operation, place, coming ? Status.PENDING : Status.BUSY, from);
    } else if (await(operation, place, block, from)
        && !store.loads().promote(block, priority, false)) {
      boolean waited = firstWaiters.remove(operation, place);
      operation.open -= waited ? 1 : 0;
      Operations.decide(operation, place, Status.BUSY, from);
    }
    return true;
  }

  /**
   * Whether a client reads the form of a block, and counts the block if not. The form of a block
   * that is being fetched is known only afterwards.
   */
  private boolean canRead(Operation operation, int block) {
    boolean can = operation.readsEncoded || !directory.has(Directory.FLAG_ENCODED, block);
    counters.add(Counter.MISSES_ENCODED, can ? 0 : 1);
    return can;
  }

  private TierId sourceOf(int block) {
    return store.sources().at(directory.source(block)).traits().id();
  }

  private boolean await(Operation operation, int place, int block, TierId from) {
    if (!firstWaiters.add(operation, place, block)) {
      Operations.decide(operation, place, Status.BUSY, TierId.NONE);
      return false;
    }
    operation.tier[place] = (byte) from.code();
    return true;
  }

  /** Verifies a block before a device gets it, because clients could have written to its slot. */
  private void verifyFirst(Operation operation, int place, int block) {
    if (await(operation, place, block, firstId) && !store.audits().verify(block)) {
      boolean waited = firstWaiters.remove(operation, place);
      operation.open -= waited ? 1 : 0;
      Operations.decide(operation, place, Status.BUSY, firstId);
    }
  }

  private void leaseInMemory(Session session, Operation operation, int place, int block) {
    if (lease(session, operation, place, block, firstId)) {
      hitsInMemory++;
      bytesInMemory += namespaces.storedBytes(directory, block);
    }
    operation.open += operation.isDevice() ? 1 : 0;
  }

  /**
   * Gives a place its block, or begins to copy the block to a device: then the place stays open.
   *
   * @return false when there can be no more leases
   */
  private boolean lease(Session session, Operation operation, int place, int block, TierId from) {
    if (operation.isDevice()) {
      operation.tier[place] = (byte) from.code();
      store.lease(block);
      devices.onboard(operation, place, block);
      return true;
    }
    int hold =
        !session.mayHold(holdsPerSessionMax)
            ? HoldTable.NONE
            : holds.take(HoldTable.LEASE, block, session, operation.value, operation.correlationId);
    if (hold == HoldTable.NONE) {
      Operations.decide(operation, place, Status.BUSY, from);
      return false;
    }
    store.lease(block);
    operation.block[place] = block;
    operation.hold[place] = hold;
    operation.holdId[place] = holds.id(hold);
    Operations.decide(operation, place, Status.OK, from);
    return true;
  }

  private void countHit(Operation operation, int block, TierId from) {
    accounts.found(operation.namespaceId, 1, operation.beganNs);
    counters.add(store.places().hitsOf(from), 1);
    counters.add(ofFirst.readBytes(), namespaces.storedBytes(directory, block));
  }

  /** The first copy of a block became resident, or failed to: waiting requests get their answer. */
  public void onFirstSettled(int block, Status status) {
    for (int waiter = firstWaiters.take(block);
        waiter != WaiterTable.NONE;
        waiter = firstWaiters.take(block)) {
      Operation operation = operations.at(firstWaiters.operation(waiter));
      int place = firstWaiters.place(waiter);
      firstWaiters.free(waiter);
      boolean isAcquire = operation.verb == Verb.ACQUIRE || operation.verb == Verb.ONBOARD;
      boolean isDecided = true;
      boolean isOutOfReach =
          status == Status.OK && operation.verb == Verb.ONBOARD && store.isDoubtful(block);
      if (status != Status.OK || isOutOfReach || (isAcquire && !canRead(operation, block))) {
        Operations.decide(operation, place, isAcquire ? Status.MISS : Status.STALE, TierId.NONE);
        countMisses(operation, isAcquire ? 1 : 0);
      } else if (isAcquire) {
        TierId from = TierId.of(operation.tier[place]);
        if (lease(operations.sessionOf(operation), operation, place, block, from)) {
          countHit(operation, block, from);
        }
        isDecided = !operation.isDevice();
      } else {
        Operations.decide(operation, place, Status.OK, firstId);
      }
      if (isDecided) {
        operations.closePlace(operation);
      }
    }
  }

  /** Decides the places that wait for blocks; returns how many there were. */
  int endWaiting(Operation operation, Status status) {
    int ended = 0;
    for (int i = 0; i < operation.count && ended < operation.open; i++) {
      if (firstWaiters.remove(operation, i)) {
        Operations.decide(operation, i, status, TierId.NONE);
        ended++;
      }
    }
    boolean isAcquire = operation.verb == Verb.ACQUIRE || operation.verb == Verb.ONBOARD;
    countMisses(operation, isAcquire && status == Status.DEADLINE ? ended : 0);
    return ended;
  }
}
