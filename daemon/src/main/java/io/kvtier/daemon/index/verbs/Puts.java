package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.index.core.ClassQueues;
import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.LongQueue;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.PutForms;
import io.kvtier.daemon.index.device.Devices;
import io.kvtier.daemon.index.device.PartialBlocks;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.session.HoldTable;
import io.kvtier.daemon.index.session.Operation;
import io.kvtier.daemon.index.session.Operations;
import io.kvtier.daemon.index.session.Request;
import io.kvtier.daemon.index.session.RequestWatch;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.session.SessionParts;
import io.kvtier.daemon.index.session.SlotClaims;
import io.kvtier.daemon.index.session.WaiterTable;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;

/** RESERVE, COMMIT and OFFLOAD: how blocks come in, and how they wait for a slot. */
public final class Puts implements Devices.RawPuts {
  /** The outcome of an attempt to get a slot. */
  private enum Slot {
    /** There is no free slot. */
    NONE,
    /** The place is decided. */
    DECIDED,
    /** The block is on its way to its slot: the place stays open. */
    BEGUN
  }

  private final Directory directory;
  private final BlockStore store;
  private final ResidentTier first;
  private final TierId firstId;
  private final HoldTable holds;
  private final SlotClaims claims;
  private final Namespaces namespaces;
  private final Operations operations;
  private final Devices devices;
  private final PartialBlocks partial;
  private final WaiterTable firstWaiters;
  private final Counters counters;
  private final PutForms forms;
  private final int holdsPerSessionMax;
  private final long reservationNs;
  private final LongSupplier clock;

  /** The end of reservations that are made now; read from the clock once for many blocks. */
  private long reservationsEndNs;

  private final RequestWatch requests;
  private final BooleanSupplier drains;
  private final Refusals refusals = new Refusals();
  private final ClassQueues queue;
  private final ClassQueues.Server serve = this::serve;

  /**
   * Nothing is put yet.
   *
   * @param drains whether new blocks are refused
   */
  Puts(
      IndexCore core,
      SessionParts parts,
      BlockStore store,
      Devices devices,
      BooleanSupplier drains) {
    directory = core.directory();
    namespaces = core.namespaces();
    counters = core.counters();
    forms = new PutForms(counters);
    clock = core.clock();
    holdsPerSessionMax = core.limits().holdsPerSessionMax();
    reservationNs = core.limits().times().reservationNs();
    operations = parts.operations();
    holds = parts.holds();
    claims = parts.claims();
    firstWaiters = parts.waiters();
    requests = parts.watch();
    this.store = store;
    first = store.first();
    firstId = first.traits().id();
    queue = store.fresh();
    this.devices = devices;
    partial = devices.partial();
    this.drains = drains;
  }

  /** The counts of refused puts. */
  public Refusals refusals() {
    return refusals;
  }

  /** RESERVE, or OFFLOAD, which writes the slots itself. */
  void reserve(Session session, Request request) throws ProtocolViolation {
    Namespaces.Namespace namespace = namespaces.byId(request.namespaceId);
    boolean isDevice = request.verb == Verb.OFFLOAD;
    Operation operation =
        namespace == null
            ? null
            : isDevice
                ? devices.begin(session, request)
                : request.shard != 0
                    ? devices.beginShard(session, request)
                    : operations.begin(session, request, request.count);
    if (operation == null || namespace == null) {
      return;
    }
    reservationsEndNs = clock.getAsLong() + reservationNs;
    int parentBlock = findParent(request);
    long parent = parentBlock == Directory.UNSEEN ? 0 : soughtFingerprint(request);
    boolean putsParts = operation.putsParts();
    for (int i = 0; i < request.count; i++) {
      int block = directory.findInOrder(request, i);
      long fingerprint = soughtFingerprint(request);
      if (putsParts
          && (block == Directory.NONE || partial.has(block))
          && !devices.part().isStoredHere(fingerprint)) {
        // Another rank has equal bytes, and stores them.
        Operations.decide(operation, i, Status.PENDING, TierId.NONE);
      } else if (block == Directory.NONE && drains.getAsBoolean()) {
        Operations.decide(operation, i, Status.NOT_ADMITTED, TierId.NONE);
      } else if (block == Directory.NONE) {
        block = reserveFresh(session, request, operation, i, namespace, parent, parentBlock);
      } else if (putsParts && partial.join(block, devices.part()) == PartialBlocks.Join.JOINED) {
        // Further layers or heads of a block that somebody has begun to put.
        store.use(block);
        takeSlot(session, operation, i, block);
      } else {
        store.raiseImportance(block, request.importance());
        boolean visible = store.isVisible(block) || store.hasArrived(block);
        Operations.decide(operation, i, visible ? Status.EXISTS : Status.PENDING, TierId.NONE);
        counters.add(Counter.PUT_EXISTS, 1);
      }
      parent = fingerprint;
      parentBlock = block;
    }
    operations.endOrWait(session, operation, request);
  }

  /**
   * The block before the first block of a request; {@link Directory#UNSEEN} when the request names
   * none.
   */
  private int findParent(Request request) {
    return request.parent == Request.NO_PARENT
        ? Directory.UNSEEN
        : directory.find(
            request.namespaceId, request.group, request.keyBytes, request.segment, request.parent);
  }

  private long soughtFingerprint(Request request) {
    return directory.soughtFingerprint(request.namespaceId, request.group);
  }

  /**
   * Adds the block whose key was sought last, and not found.
   *
   * @return the block, or {@link Directory#NONE} where there is no record for it
   */
  private int reserveFresh(
      Session session,
      Request request,
      Operation operation,
      int place,
      Namespaces.Namespace namespace,
      long parent,
      int parentBlock) {
    int block = store.records().insertSought(namespace, request.group, request.keyBytes, true);
    if (block == Directory.NONE) {
      busy(operation, place, Refusals.Lack.RECORD);
      return block;
    }
    // A GPU encodes any part of a block: a region with other parts than whole granules is refused.
    boolean isEncoded =
        operation.verb == Verb.OFFLOAD
            ? devices.isEncoding(operation)
            : request.has(RequestDescriptor.FLAG_ENCODED);
    directory.set(Directory.FLAG_ENCODED, block, isEncoded && namespace.encoding() != null);
    directory.setLineage(
        block, request.depth + place, parent, Math.max(parentBlock, Directory.NONE));
    directory.setImportance(block, request.importance());
    // In use: the record stays until the slot is there.
    store.use(block);
    if (operation.putsParts() && !partial.begin(session, block, devices.part())) {
      store.endUse(block);
      busy(operation, place, Refusals.Lack.DEVICE);
      return Directory.NONE;
    }
    takeSlot(session, operation, place, block);
    return block;
  }

  /** Gives a block that is in use its slot, or has it wait for one. */
  private void takeSlot(Session session, Operation operation, int place, int block) {
    int sizeClass = first.sizeClass(block);
    // Further layers go where the first ones went, whoever waits for other slots.
    boolean mustWait = queue.waiting(sizeClass) > 0 && first.state(block) != CopyState.RESERVED;
    Slot slot = mustWait ? Slot.NONE : reserveOne(session, operation, place, block);
    if (slot == Slot.BEGUN) {
      operation.open++;
    } else if (slot == Slot.NONE) {
      if (!isStuck(operation, sizeClass)
          && queue.offer(sizeClass, 0, (long) operation.poolIndex << 32 | place)) {
        operation.block[place] = block;
        operation.open++;
      } else {
        giveUp(operation, block);
        busy(operation, place, Refusals.Lack.SLOT);
      }
    }
  }

  /** A place does not wait for its slot any more. */
  private void giveUp(Operation operation, int block) {
    if (operation.putsParts()) {
      partial.leave(block);
    }
    store.endUse(block);
  }

  private void busy(Operation operation, int place, Refusals.Lack lack) {
    Operations.decide(operation, place, Status.BUSY, TierId.NONE);
    refusals.add(lack);
    counters.add(Counter.PUT_BUSY, 1);
  }

  /** Gives a fresh block its slot and its reservation. */
  private Slot reserveOne(Session session, Operation operation, int place, int block) {
    if (operation.isDevice()) {
      return offloadOne(operation, place, block);
    }
    boolean mayHold = session.mayHold(holdsPerSessionMax);
    int hold =
        !mayHold
            ? HoldTable.NONE
            : holds.take(
                HoldTable.RESERVATION, block, session, endFor(session), operation.correlationId);
    if (hold == HoldTable.NONE) {
      giveUp(operation, block);
      busy(operation, place, mayHold ? Refusals.Lack.HOLD : Refusals.Lack.SHARE_OF_HOLDS);
      return Slot.DECIDED;
    }
    boolean hasSlot = first.state(block) == CopyState.RESERVED;
    if (!hasSlot
        && !store.reserve(
            block,
            first.sizeClass(block),
            session.id(),
            operation.isCopied,
            SlotAllocator.ANY_LANE)) {
      holds.free(hold, session);
      return Slot.NONE;
    }
    directory.addUses(block, -1);
    SlotAllocator slots = first.slots();
    int slot = first.slot(block);
    if (session.id() != SlotAllocator.DAEMON) {
      if (!claims.begin(hold, slot, session)) {
        holds.free(hold, session);
        abandon(block);
        busy(operation, place, Refusals.Lack.HOLD);
        return Slot.DECIDED;
      }
      int slab = slots.regionOf(slot);
      if (!session.mayWrite(slab)) {
        session.allowWrite(slab);
        slots.addWriter(slab, session.id());
      }
    }
    if (operation.isOfShard) {
      devices.reserved(hold, operation);
    }
    operation.block[place] = block;
    operation.hold[place] = hold;
    operation.holdId[place] = holds.id(hold);
    Operations.decide(operation, place, Status.OK, firstId);
    return Slot.DECIDED;
  }

  /** The end of a session's reservations. The daemon's own sessions have deadlines of their own. */
  private long endFor(Session session) {
    return session.id() == SlotAllocator.DAEMON ? 0 : reservationsEndNs;
  }

  /** Gives a block its slot, unless it has one, and has it copied there. */
  private Slot offloadOne(Operation operation, int place, int block) {
    boolean isFirst = first.state(block) == CopyState.NONE;
    if (isFirst
        && !store.reserve(
            block,
            first.sizeClass(block),
            SlotAllocator.DAEMON,
            false,
            devices.laneOf(operation))) {
      return Slot.NONE;
    }
    directory.addUses(block, -1);
    requests.wrote(block, operation.origin);
    devices.offload(operation, place, block);
    return Slot.BEGUN;
  }

  @Override
  public void putRaw(Operation operation, int place) {
    int block = operation.block[place];
    // In use: the record stays until the slot is there.
    store.use(block);
    if (directory.has(Directory.FLAG_ENCODED, block)) {
      int encodedClass = first.sizeClass(block);
      partial.becomeRaw(block);
      moveWaiting(block, encodedClass);
    }
    takeSlot(operations.sessionOf(operation), operation, place, block);
    // The place was open for its first copies. It is open once, for its slot or its new copies.
    operations.closePlace(operation);
  }

  /** Has the places of a block that became raw wait for raw slots. */
  private void moveWaiting(int block, int encodedClass) {
    int rawClass = first.sizeClass(block);
    if (rawClass == encodedClass || queue.waiting(encodedClass) == 0) {
      return;
    }
    LongQueue moved = new LongQueue(queue.waiting(encodedClass));
    queue.removeIf(
        encodedClass,
        item -> operations.at((int) (item >>> 32)).block[(int) item] == block && moved.offer(item));
    while (moved.size() > 0) {
      // The queue has a place: the item was in the queue before.
      boolean ignored = queue.offer(rawClass, 0, moved.poll());
    }
  }

  /**
   * Whether an operation waits for itself: it holds slots, and only their commit would free one.
   * The operation keeps those slots, and gets BUSY for its other places.
   */
  private boolean isStuck(Operation operation, int sizeClass) {
    if (store.isRoomComing(sizeClass) || !devices.moves().isIdle()) {
      return false;
    }
    boolean isDevice = operation.isDevice();
    for (int i = 0; i < operation.count; i++) {
      if (isDevice ? devices.hasSlot(operation, i) : operation.hold[i] != HoldTable.NONE) {
        return true;
      }
    }
    return false;
  }

  /** Gives free slots to waiting places. */
  public void serveQueue() {
    if (queue.size() > 0) {
      reservationsEndNs = clock.getAsLong() + reservationNs;
      queue.serve(first.slots().classes(), serve);
    }
  }

  private boolean serve(long item) {
    Operation operation = operations.at((int) (item >>> 32));
    int place = (int) item;
    int block = operation.block[place];
    Session session = operations.sessionOf(operation);
    Slot slot = reserveOne(session, operation, place, block);
    if (slot == Slot.NONE && isStuck(operation, first.sizeClass(block))) {
      giveUp(operation, block);
      busy(operation, place, Refusals.Lack.SLOT);
      slot = Slot.DECIDED;
    }
    if (slot == Slot.DECIDED) {
      operations.closePlace(operation);
    }
    return slot != Slot.NONE;
  }

  /** Decides what still waits for a slot; returns how many places that were. */
  int cutShort(Operation operation, Status status) {
    Namespaces.Namespace namespace = namespaces.byId(operation.namespaceId);
    if (namespace == null) {
      return 0;
    }
    int raw = first.classFor(namespace.id(), false);
    int encoded = first.classFor(namespace.id(), true);
    return cutShort(operation, status, raw)
        + (encoded == raw ? 0 : cutShort(operation, status, encoded));
  }

  private int cutShort(Operation operation, Status status, int sizeClass) {
    int waiting = queue.waiting(sizeClass);
    queue.removeIf(
        sizeClass,
        item -> {
          if ((int) (item >>> 32) != operation.poolIndex) {
            return false;
          }
          int place = (int) item;
          Operations.decide(operation, place, status, TierId.NONE);
          giveUp(operation, operation.block[place]);
          // A put that was cancelled, or whose client died, was not refused.
          if (status == Status.DEADLINE) {
            counters.add(Counter.PUT_BUSY, 1);
            refusals.add(Refusals.Lack.SLOT);
          }
          return true;
        });
    return waiting - queue.waiting(sizeClass);
  }

  /** Ends the claim of a client that no longer writes to a slot that it has lost. */
  public void endLate(long id, Session session) {
    int hold = holds.find(id, HoldTable.LATE, session);
    if (hold != HoldTable.NONE) {
      claims.end(hold);
      holds.free(hold, session);
    }
  }

  /**
   * A reservation's time is over: its slot is another's from now on, and a commit that comes later
   * is STALE.
   */
  void expire(int hold, Session session) {
    int block = holds.block(hold);
    claims.lose(hold);
    holds.becomeLate(hold, session);
    abandon(block);
    counters.add(Counter.RESERVATIONS_EXPIRED, 1);
  }

  /** A node reads a block no more that may not be whole. */
  void released(int block) {
    partial.released(block);
  }

  /** A reservation has ended without a commit. */
  void abandon(int block) {
    if (partial.has(block)) {
      partial.leave(block);
    } else {
      store.abandon(block);
    }
  }

  void commit(Session session, Request request) throws ProtocolViolation {
    Operation operation = operations.begin(session, request, request.count);
    if (operation == null) {
      return;
    }
    boolean hasChecksums = request.has(RequestDescriptor.FLAG_CHECKSUMS);
    int stride = Records.idStride(request.flags);
    for (int i = 0; i < request.count; i++) {
      long at = request.body + (long) stride * i;
      long id = Words.getLong(request.segment, at);
      int hold = holds.find(id, HoldTable.RESERVATION, session);
      if (hold == HoldTable.NONE) {
        endLate(id, session);
        Operations.decide(operation, i, Status.STALE, TierId.NONE);
        continue;
      }
      int block = holds.block(hold);
      claims.end(hold);
      holds.free(hold, session);
      boolean isPart = partial.has(block);
      if ((isPart && (hasChecksums || partial.isLost(block)))
          || (!hasChecksums && store.isDoubtful(block))) {
        // The commit of a block in a doubtful slot must bring the checksum: another client may have
        // written there. A shard has no checksum.
        abandon(block);
        Operations.decide(operation, i, Status.STALE, TierId.NONE);
        continue;
      }
      requests.wrote(block, operation.origin);
      forms.count(namespaces.of(directory, block), directory.has(Directory.FLAG_ENCODED, block));
      if (isPart) {
        if (!partial.written(block, hold)) {
          // The block becomes visible with the last shard.
          Operations.decide(operation, i, Status.OK, TierId.NONE);
          continue;
        }
      } else if (hasChecksums) {
        store.commitChecksummed(block, Words.getInt(request.segment, at + 8));
      } else {
        store.commit(block);
      }
      if (first.isResident(block)) {
        Operations.decide(operation, i, Status.OK, firstId);
      } else if (!firstWaiters.add(operation, i, block)) {
        // The block will be visible, but there is no place to remember that the operation waits for
        // it.
        Operations.decide(operation, i, Status.PENDING, firstId);
      }
    }
    operations.endOrWait(session, operation, request);
  }
}
