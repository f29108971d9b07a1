package io.kvtier.daemon.index;

import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Utf8;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.ledger.Ledger;
import io.kvtier.tiers.object.PresenceCache.Presence;
import io.kvtier.tiers.slots.SlotAllocator;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The verbs: what a request does to the directory, the holds and the tiers, and how it is answered.
 * A request that needs no transfer is answered at once; the others are operations that end when
 * their last block is settled, their deadline passes, or their client cancels or dies. Confined to
 * the index's thread.
 */
final class Index implements BlockStore.Listener, Peers.Tiers {
  private final Directory directory;
  private final Namespaces namespaces;
  private final Counters counters;
  private final LongSupplier clock;
  private final IndexAgent.Limits limits;
  private final SessionTable sessions;
  private final BlockStore store;
  private final Registry registry;
  private final HoldTable holds;
  private final SlotClaims claims;
  private final CompletionWriter writer;
  private final Operations operations;
  private final WaiterTable hostWaiters;
  private final Shortages shortages;
  private final Devices devices;
  private final Puts puts;
  private final Removals removals;
  private final Scans scans;
  private final Admin admin;
  private final Lookups lookups;
  private final Upkeep upkeep;
  private final Annotations annotations;
  private final RequestTap requests;

  /** Blocks of the request under way that were leased at once: they are counted together. */
  private int hitsInMemory;

  Index(IndexAgent.Context context, IndexAgent.Limits limits, Namespaces namespaces) {
    this.directory = context.directory();
    this.counters = context.counters();
    this.clock = context.clock();
    this.namespaces = namespaces;
    this.limits = limits;
    this.sessions = new SessionTable(limits, namespaces.tenants(), counters);
    this.store = new BlockStore(context, limits, namespaces, this);
    this.registry = new Registry(directory, namespaces, store, clock, this::noteNamespacesInUse);
    this.holds = new HoldTable(limits.holdsMax());
    this.claims = new SlotClaims(context.hostSlots(), context.writers(), limits.holdsMax());
    this.hostWaiters = new WaiterTable(limits.holdsMax());
    this.writer = new CompletionWriter(directory, store, namespaces, context.requests());
    this.operations =
        new Operations(
            sessions,
            holds,
            writer,
            context.latencies(),
            context.requests(),
            limits.operationsMax(),
            limits.operationsPerSessionMax());
    this.shortages =
        new Shortages(
            directory, store, holds, hostWaiters, operations, counters, limits.standstillNs());
    this.requests = context.requests();
    requests.connect(hostWaiters, operations, namespaces, store.storedTiers());
    this.devices =
        new Devices(this, context, limits, store, operations, writer, namespaces, sessions);
    this.puts =
        new Puts(
            directory,
            store,
            holds,
            claims,
            namespaces,
            operations,
            devices,
            hostWaiters,
            counters,
            limits,
            clock,
            requests,
            this::drains);
    operations.whenEndsUnheard(puts::endLate);
    this.removals = new Removals(store, operations);
    this.scans = new Scans(directory, store, operations, removals, limits.holdsMax());
    this.upkeep = new Upkeep(store, directory, namespaces);
    this.admin = new Admin(store, namespaces, upkeep, sessions);
    this.lookups =
        new Lookups(directory, store, namespaces, devices.peers(), admin, writer, counters, clock);
    this.annotations = new Annotations(directory, store, writer, counters);
  }

  /** Whether no new blocks are taken. */
  boolean drains() {
    return upkeep.drains();
  }

  SessionTable sessions() {
    return sessions;
  }

  private void noteNamespacesInUse(BitSet ids) {
    for (int place = 0; place < sessions.end(); place++) {
      Session session = sessions.at(place);
      if (session != null) {
        ids.or(session.namespaces);
      }
    }
    operations.noteInUse(ids);
    devices.noteInUse(ids);
  }

  /** Whether the session has the namespace that a request names; it may name anything. */
  boolean isRegistered(Session session, Request request) {
    return request.namespaceId >= 0 && session.namespaces.get(request.namespaceId);
  }

  /** The id of the namespace that sessions know by a number; -1: there is none. */
  int namespaceOf(int number) {
    return namespaces.idOf(number);
  }

  BlockStore store() {
    return store;
  }

  Devices devices() {
    return devices;
  }

  HoldTable holds() {
    return holds;
  }

  CompletionWriter writer() {
    return writer;
  }

  /** Finds again what an earlier start of the daemon left; before the first request. */
  void recover(Ledger hostLedger, List<Ledger> ssdLedgers, long storesBegin) throws IOException {
    new Recovery(directory, registry, store, counters).run(hostLedger, ssdLedgers, storesBegin);
    store.host().recovered();
    store.ssd().recovered();
  }

  /** A namespace's number, or -1. */
  int namespaceId(int tenant, String name) {
    Namespaces.Namespace namespace = namespaces.byName(tenant, name);
    return namespace == null ? -1 : namespace.id();
  }

  // ---- sessions

  /**
   * Releases all that a session holds, at once.
   *
   * @param hasHungUp whether its client has closed the socket, which says that it writes no more
   */
  void close(Session session, boolean hasHungUp) {
    if (!sessions.has(session)) {
      return;
    }
    for (int i = 0; i < operations.max(); i++) {
      Operation operation = operations.at(i);
      if (operation.active && operation.isOf(session)) {
        cutShort(operation, Status.SESSION_ENDED);
      }
    }
    while (session.firstHold != HoldTable.NONE) {
      if (!hasHungUp) {
        claims.leave(session.firstHold, session);
      }
      endHold(session.firstHold, session);
    }
    store.host().slots().revoke(session.id());
    devices.close(session);
    sessions.remove(session);
  }

  private void endHold(int hold, Session session) {
    int block = holds.block(hold);
    byte kind = holds.kind(hold);
    claims.end(hold);
    holds.free(hold, session);
    switch (kind) {
      case HoldTable.RESERVATION -> store.abandon(block);
      case HoldTable.LATE -> {}
      default -> store.release(block);
    }
  }

  // ---- requests

  /** Carries a request out, or begins to. Its completion's space is promised. */
  void handle(Session session, Request request) throws ProtocolViolation {
    counters.add(Counter.REQUESTS, 1);
    session.countRequest();
    switch (request.verb) {
      case PING -> writer.completeShort(session, request, Status.OK, 0);
      case REGISTER -> register(session, request);
      case UNREGISTER -> {
        boolean known = isRegistered(session, request);
        if (known) {
          session.namespaces.clear(request.namespaceId);
        }
        writer.completeShort(session, request, known ? Status.OK : Status.NAMESPACE_UNKNOWN, 0);
      }
      case LOOKUP -> lookups.lookup(session, request);
      case RESERVE -> puts.reserve(session, request);
      case OFFLOAD -> {
        puts.reserve(session, request);
        // At once: the requests behind this one take their time.
        devices.advance();
      }
      case COMMIT -> puts.commit(session, request);
      case ABORT, RELEASE -> endHolds(session, request);
      case ACQUIRE -> acquire(session, request);
      case ONBOARD -> {
        acquire(session, request);
        devices.advance();
      }
      case REGISTER_REGION -> registerRegion(session, request);
      case UNREGISTER_REGION -> devices.unregister(session, request);
      case ADVERTISE, REVOKE -> devices.advertise(session, request);
      case PREFETCH, PIN, UNPIN -> eachBlock(session, request);
      case DELETE -> delete(session, request);
      case CLEAR, FLUSH -> {
        if (scans.begin(session, request) && request.verb == Verb.CLEAR) {
          devices.peers().deleteAll(request.namespaceId);
        }
      }
      case CANCEL -> cancel(session, request);
      case ADMIN -> admin(session, request);
      case ANNOTATE -> annotations.annotate(session, request);
      case STATS -> throw new IllegalStateException("statistics are the adapter's");
    }
  }

  /** The text of a request; null, and the request is refused, where it is none. */
  private @Nullable String textOf(Session session, Request request) throws ProtocolViolation {
    byte[] utf8 = new byte[request.count];
    MemorySegment.copy(request.segment, request.body, MemorySegment.ofArray(utf8), 0, utf8.length);
    try {
      return Utf8.decode(utf8, 0, utf8.length);
    } catch (IllegalArgumentException e) {
      writer.refuse(
          session,
          request,
          Status.INVALID_ARGUMENT,
          "the text of " + request.verb + " is " + e.getMessage() + "; names are UTF-8");
      return null;
    }
  }

  private void registerRegion(Session session, Request request) throws ProtocolViolation {
    String text = textOf(session, request);
    if (text != null) {
      devices.register(session, request, text);
    }
  }

  private void admin(Session session, Request request) throws ProtocolViolation {
    String text = textOf(session, request);
    if (text == null) {
      return;
    }
    OperatorAnswer answer = admin.run(text, session.tenant());
    request.outcome = answer.status();
    requests.refused(request, answer.status(), answer.text());
    session.completeText(
        request.verb.code(),
        answer.status(),
        request.correlationId,
        answer.text(),
        RequestAdapter.ADMIN_BYTES_MAX);
  }

  Admin admin() {
    return admin;
  }

  private void register(Session session, Request request) throws ProtocolViolation {
    String text = textOf(session, request);
    if (text == null) {
      return;
    }
    Map<String, String> properties = Namespaces.parse(text);
    if (properties == null) {
      writer.refuse(
          session,
          request,
          Status.INVALID_ARGUMENT,
          "a registration is lines 'property=value', each property once, 'name' among them");
      return;
    }
    String name = properties.getOrDefault("name", "");
    long blockBytes = request.argument;
    int tenant = session.tenant();
    Namespaces.Namespace known = namespaces.byName(tenant, name);
    String difference = known == null ? null : Namespaces.difference(known, blockBytes, properties);
    if (known != null && difference != null) {
      if (!registry.forgetFree(known)) {
        String refusal =
            Registry.taken(
                known, difference, directory.recordsOf(known.id()), sessions.namesOf(known.id()));
        writer.refuse(session, request, Status.NAMESPACE_MISMATCH, refusal);
        return;
      }
      known = null;
    }
    if (known == null) {
      String why = isOfReader(session, request) ? registry.whyNoReader(tenant, blockBytes) : null;
      why = why == null ? registry.whyNot(tenant, blockBytes) : why;
      if (why != null) {
        writer.refuse(session, request, Status.INVALID_ARGUMENT, why);
        return;
      }
      known = registry.add(tenant, name, blockBytes, properties);
    }
    session.namespaces.set(known.id());
    writer.completeShort(session, request, Status.OK, known.number());
  }

  private static boolean isOfReader(Session session, Request request) {
    return session.role() == Role.READ
        || (session.id() == SlotAllocator.DAEMON
            && request.group == IndexAgent.REGISTER_FOR_READER);
  }

  // ---- acquire

  /** ACQUIRE, or ONBOARD, which leases blocks only until they are copied. */
  private void acquire(Session session, Request request) throws ProtocolViolation {
    Operation operation =
        request.verb == Verb.ONBOARD
            ? devices.begin(session, request)
            : operations.begin(session, request, request.count);
    if (operation == null) {
      return;
    }
    long leaseNs =
        request.argument <= 0 ? limits.leaseNs() : Math.min(request.argument, limits.leaseNsMax());
    operation.value = operation.beganNs + leaseNs;
    boolean leadingRun = request.has(RequestDescriptor.FLAG_LEADING_RUN);
    boolean noWait = request.has(RequestDescriptor.FLAG_NO_WAIT);
    Namespaces.Namespace namespace = namespaces.byId(request.namespaceId);
    int count = request.count;
    int misses = 0;
    hitsInMemory = 0;
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
            store
                .objectMoves()
                .fetchSought(namespace, request.group, request.keyBytes, request.priority, noWait);
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
    counters.add(Counter.MISSES, misses);
    countHitsInMemory(namespace);
    if (namespace != null && !operation.isDevice() && hitsInMemory > 0) {
      devices.leased(namespace, hitsInMemory);
    }
    operations.endOrWait(session, operation, request);
  }

  private void countHitsInMemory(Namespaces.@Nullable Namespace namespace) {
    if (namespace != null) {
      counters.add(Counter.HITS_HOST, hitsInMemory);
      counters.add(Counter.HOST_READ_BYTES, hitsInMemory * namespace.blockBytes());
    }
  }

  @Override
  public void getInstead(Operation operation, int place, int known, int group, int keyBytes) {
    DeviceJob job = operation.job();
    Namespaces.Namespace namespace = namespaces.byId(operation.namespaceId);
    int block = known;
    boolean isFresh = block == Directory.NONE;
    if (isFresh && namespace != null) {
      block = store.objectMoves().fetchSought(namespace, group, keyBytes, job.priority, job.noWait);
    }
    Session session = operations.sessionOf(operation);
    hitsInMemory = 0;
    if (block == Directory.NONE
        || !acquireOne(session, job.priority, job.noWait, operation, place, block, isFresh)) {
      Operations.decide(operation, place, Status.MISS, TierId.NONE);
      counters.add(Counter.MISSES, 1);
    }
    countHitsInMemory(namespace);
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
    CopyState inMemory = store.host().state(block);
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
    boolean onSsd = store.ssd().isResident(block);
    boolean isFetching = directory.has(Directory.FLAG_FETCHING, block);
    TierId from = isFetching ? TierId.OBJECT : onSsd ? TierId.SSD : TierId.HOST;
    switch (inMemory) {
      case STAGING -> {
        if (operation.isDevice()
            && store.hasArrived(block)
            && !store.mustVerify(block, SlotAllocator.DAEMON)) {
          // What came from a device and goes to one never left this process.
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
        if (!onSsd) {
          return false;
        }
      }
      case RESIDENT -> throw new IllegalStateException("a resident block is leased at once");
    }
    // First in line, then the load: one that nobody waits for may be given up.
    if (noWait) {
      boolean coming = store.promote(block, priority, true);
      Operations.decide(operation, place, coming ? Status.PENDING : Status.BUSY, from);
    } else if (await(operation, place, block, from) && !store.promote(block, priority, false)) {
      boolean waited = hostWaiters.remove(operation, place);
      operation.open -= waited ? 1 : 0;
      Operations.decide(operation, place, Status.BUSY, from);
    }
    return true;
  }

  private boolean await(Operation operation, int place, int block, TierId from) {
    if (!hostWaiters.add(operation, place, block)) {
      Operations.decide(operation, place, Status.BUSY, TierId.NONE);
      return false;
    }
    operation.tier[place] = (byte) from.code();
    return true;
  }

  /** Others could have written to a block's slot: it is looked at before a device gets it. */
  private void verifyFirst(Operation operation, int place, int block) {
    if (await(operation, place, block, TierId.HOST) && !store.verify(block)) {
      boolean waited = hostWaiters.remove(operation, place);
      operation.open -= waited ? 1 : 0;
      Operations.decide(operation, place, Status.BUSY, TierId.HOST);
    }
  }

  private void leaseInMemory(Session session, Operation operation, int place, int block) {
    hitsInMemory += lease(session, operation, place, block, TierId.HOST) ? 1 : 0;
    operation.open += operation.isDevice() ? 1 : 0;
  }

  /**
   * Gives a place its block, or begins to copy it to the device that it is for: then the place
   * stays open.
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
        !session.mayHold(limits.holdsPerSessionMax())
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

  private void countHit(int block, TierId from) {
    counters.add(
        switch (from) {
          case SSD -> Counter.HITS_SSD;
          case OBJECT -> Counter.HITS_OBJECT;
          default -> Counter.HITS_HOST;
        },
        1);
    counters.add(Counter.HOST_READ_BYTES, namespaces.of(directory, block).blockBytes());
  }

  @Override
  public void onHostSettled(int block, Status status) {
    for (int waiter = hostWaiters.take(block);
        waiter != WaiterTable.NONE;
        waiter = hostWaiters.take(block)) {
      Operation operation = operations.at(hostWaiters.operation(waiter));
      int place = hostWaiters.place(waiter);
      hostWaiters.free(waiter);
      boolean isAcquire = operation.verb == Verb.ACQUIRE || operation.verb == Verb.ONBOARD;
      boolean isDecided = true;
      boolean isOutOfReach =
          status == Status.OK && operation.verb == Verb.ONBOARD && store.isDoubtful(block);
      if (status != Status.OK || isOutOfReach) {
        Operations.decide(operation, place, isAcquire ? Status.MISS : Status.STALE, TierId.NONE);
        counters.add(Counter.MISSES, isAcquire ? 1 : 0);
      } else if (isAcquire) {
        TierId from = TierId.of(operation.tier[place]);
        if (lease(operations.sessionOf(operation), operation, place, block, from)) {
          countHit(block, from);
        }
        isDecided = !operation.isDevice();
      } else {
        Operations.decide(operation, place, Status.OK, TierId.HOST);
      }
      if (isDecided) {
        operations.closePlace(operation);
      }
    }
  }

  @Override
  public boolean isAwaited(int block) {
    return hostWaiters.hasWaiters(block);
  }

  @Override
  public int waitingForSlot(int sizeClass) {
    return puts.waiting(sizeClass);
  }

  @Override
  public void onStoreSettled(int block, Status status) {
    scans.onStoreSettled(block, status);
  }

  // ---- the end of holds

  private void endHolds(Session session, Request request) throws ProtocolViolation {
    byte kind = request.verb == Verb.ABORT ? HoldTable.RESERVATION : HoldTable.LEASE;
    boolean isCorrupt = request.has(RequestDescriptor.FLAG_CORRUPT);
    if (isCorrupt) {
      requests.foundCorrupt(request);
    }
    writer.begin(session, request);
    for (int i = 0; i < request.count; i++) {
      long id = Words.getLong(request.segment, request.body + 8L * i);
      int hold = holds.find(id, kind, session);
      if (hold == HoldTable.NONE) {
        if (kind == HoldTable.RESERVATION) {
          puts.endLate(id, session);
        }
        writer.add(Status.STALE, TierId.NONE);
        continue;
      }
      if (isCorrupt) {
        store.doubt(holds.block(hold));
      }
      endHold(hold, session);
      writer.add(Status.OK, TierId.NONE);
    }
    writer.end(request, 0);
  }

  // ---- prefetch, pins, deletion

  private void eachBlock(Session session, Request request) throws ProtocolViolation {
    writer.begin(session, request);
    Namespaces.Namespace namespace = namespaces.byId(request.namespaceId);
    for (int i = 0; i < request.count; i++) {
      int block = directory.findInOrder(request, i);
      if (block == Directory.NONE && request.verb == Verb.PREFETCH && namespace != null) {
        block =
            store
                .objectMoves()
                .fetchSought(
                    namespace,
                    request.group,
                    request.keyBytes,
                    RequestDescriptor.PRIORITY_LOW,
                    true);
      }
      Status status =
          block == Directory.NONE
              ? Status.MISS
              : switch (request.verb) {
                case PREFETCH -> prefetch(block);
                case PIN -> pin(session, block);
                default -> unpin(session, block);
              };
      writer.add(status, TierId.NONE);
    }
    writer.end(request, 0);
  }

  private Status prefetch(int block) {
    return switch (store.host().state(block)) {
      case RESIDENT, STAGING -> Status.OK;
      case RESERVED, LEAVING -> Status.MISS;
      case NONE -> {
        if (!store.ssd().isResident(block)) {
          yield Status.MISS;
        }
        yield store.promote(block, RequestDescriptor.PRIORITY_LOW, true) ? Status.OK : Status.BUSY;
      }
    };
  }

  private Status pin(Session session, int block) {
    if (!store.isVisible(block)) {
      return Status.MISS;
    }
    int known = holds.pinOf(block, session);
    if (known != HoldTable.NONE) {
      return holds.pinAgain(known, session) ? Status.OK : Status.BUSY;
    }
    if (!session.mayHold(limits.holdsPerSessionMax())
        || holds.take(HoldTable.PIN, block, session, 0) == HoldTable.NONE) {
      return Status.BUSY;
    }
    store.pin(block);
    return Status.OK;
  }

  private Status unpin(Session session, int block) {
    int hold = holds.pinOf(block, session);
    if (hold == HoldTable.NONE) {
      return Status.MISS;
    }
    if (!holds.unpinOnce(hold, session)) {
      endHold(hold, session);
    }
    return Status.OK;
  }

  /** Deletes; answered when no later start of the daemon would find any of it again. */
  private void delete(Session session, Request request) throws ProtocolViolation {
    Operation operation = operations.begin(session, request, request.count);
    if (operation == null) {
      return;
    }
    Namespaces.Namespace namespace = namespaces.byId(request.namespaceId);
    for (int i = 0; i < request.count; i++) {
      Operations.decide(operation, i, deleteOne(namespace, request, i), TierId.NONE);
    }
    removals.await(operation);
    operations.endOrWait(session, operation, request);
  }

  /** Deletes a block here, and its object, whether or not anything is known of it. */
  private Status deleteOne(Namespaces.@Nullable Namespace namespace, Request request, int i) {
    int block = directory.find(request, i);
    boolean wasAdvertised = !devices.peers().isEmpty() && devices.peers().delete(request);
    if (block == Directory.NONE) {
      boolean isThere =
          wasAdvertised
              || (namespace != null
                  && store.objects().presenceOfSought(namespace, request.keyBytes, request.group)
                      == Presence.PRESENT);
      boolean isTaken =
          namespace == null
              || store.objects().deleteSought(namespace, request.keyBytes, request.group);
      return isTaken ? isThere ? Status.OK : Status.MISS : Status.BUSY;
    }
    if (!store.canBeDeleted(block)) {
      return wasAdvertised ? Status.OK : Status.MISS;
    }
    if (!store.objects().delete(block)) {
      return Status.BUSY;
    }
    store.delete(block);
    return Status.OK;
  }

  @Override
  public void onForgotten(int block) {
    upkeep.forgotten(block);
    if (directory.holds(block) > 0 && holds.count(HoldTable.PIN) > 0) {
      for (int hold = holds.anyPinOf(block); hold != HoldTable.NONE; hold = holds.anyPinOf(block)) {
        endHold(hold, sessions.owner(holds.sessionIndex(hold)));
      }
    }
  }

  @Override
  public void onFreed(int block) {
    requests.forgot(block);
  }

  // ---- cancellation and deadlines

  private void cancel(Session session, Request request) throws ProtocolViolation {
    Status found = Status.MISS;
    for (int i = 0; i < operations.max() && found != Status.OK; i++) {
      Operation operation = operations.at(i);
      if (operation.active
          && operation.isOf(session)
          && operation.correlationId == request.argument) {
        cutShort(operation, Status.CANCELLED);
        counters.add(Counter.CANCELLED, 1);
        found = Status.OK;
      }
    }
    if (found != Status.OK && session.id() != SlotAllocator.DAEMON) {
      found = giveBackUnheard(session, request.argument);
    }
    writer.completeShort(session, request, found, 0);
  }

  /**
   * A request is cancelled that was answered a moment ago: who cancels does not use the answer.
   * What it granted would stay until the client looks for answers, which may be never.
   */
  private Status giveBackUnheard(Session session, long correlationId) {
    Status found = Status.MISS;
    int next;
    for (int hold = session.firstHold; hold != HoldTable.NONE && correlationId != 0; hold = next) {
      next = holds.nextOf(hold);
      byte kind = holds.kind(hold);
      if (holds.request(hold) == correlationId
          && (kind == HoldTable.RESERVATION || kind == HoldTable.LEASE)) {
        endHold(hold, session);
        found = Status.OK;
      }
    }
    return found;
  }

  /**
   * Decides every open place of an operation, and completes it. Transfers under way go on for the
   * cache's sake.
   */
  private void cutShort(Operation operation, Status status) {
    switch (operation.verb) {
      case OFFLOAD -> {
        devices.cutShort(operation, status, puts.cutShort(operation, status));
        return;
      }
      case ONBOARD -> {
        devices.cutShort(operation, status, endWaiting(operation, status));
        return;
      }
      case REGISTER_REGION, UNREGISTER_REGION -> devices.cutShort(operation, status);
      case ADVERTISE -> devices.forget(operation);
      case REVOKE -> {
        if (status != Status.SESSION_ENDED) {
          // The copies are over when they are.
          return;
        }
        devices.forget(operation);
      }
      case RESERVE -> {
        int ignored = puts.cutShort(operation, status);
      }
      case FLUSH, CLEAR -> {
        removals.cutShort(operation);
        scans.cutShort(operation, status);
      }
      case DELETE -> {
        removals.cutShort(operation);
        for (int i = 0; i < operation.count; i++) {
          Operations.decide(operation, i, status, TierId.NONE);
        }
      }
      default -> {
        int ignored = endWaiting(operation, status);
      }
    }
    operation.open = 0;
    operations.complete(operations.sessionOf(operation), operation);
  }

  /** Decides the places that wait for blocks; returns how many there were. */
  private int endWaiting(Operation operation, Status status) {
    int ended = 0;
    for (int i = 0; i < operation.count && ended < operation.open; i++) {
      if (hostWaiters.remove(operation, i)) {
        Operations.decide(operation, i, status, TierId.NONE);
        ended++;
      }
    }
    boolean isAcquire = operation.verb == Verb.ACQUIRE || operation.verb == Verb.ONBOARD;
    counters.add(Counter.MISSES, isAcquire && status == Status.DEADLINE ? ended : 0);
    return ended;
  }

  /** The work of each round: what waits for slots, and scans. */
  void maintain() {
    puts.serveQueue();
    scans.advance();
    removals.advance();
    devices.advance();
  }

  /** Ends operations and leases whose time is over; called every few milliseconds. */
  void checkTime(long nowNs) {
    for (int i = 0; i < operations.max() && operations.active() > 0; i++) {
      Operation operation = operations.at(i);
      if (operation.active && nowNs >= operation.deadlineNs) {
        counters.add(Counter.DEADLINES, Math.max(1, operation.open));
        cutShort(operation, Status.DEADLINE);
      }
    }
    shortages.check(nowNs);
    devices.checkTime(nowNs);
    store.records().trim(nowNs);
    for (int hold = holds.expired(nowNs); hold != HoldTable.NONE; hold = holds.expired(nowNs)) {
      Session session = sessions.owner(holds.sessionIndex(hold));
      if (holds.kind(hold) == HoldTable.RESERVATION) {
        puts.expire(hold, session);
      } else {
        counters.add(Counter.LEASES_EXPIRED, 1);
        endHold(hold, session);
      }
    }
    claims.checkTime(nowNs);
  }

  /** The daemon stops. */
  void stop() {
    admin.stop();
  }

  /** Whether time must be looked at soon. */
  boolean hasDeadlines() {
    return operations.active() > 0
        || holds.count(HoldTable.LEASE) > 0
        || holds.count(HoldTable.RESERVATION) > 0
        || devices.hasDeadlines();
  }

  /** Whether each round may find something to do by itself. */
  boolean hasBackgroundWork() {
    return scans.isBusy();
  }

  void publishGauges() {
    counters.set(Counter.GAUGE_LEASES, holds.count(HoldTable.LEASE));
    counters.set(Counter.GAUGE_RESERVATIONS, holds.count(HoldTable.RESERVATION));
    counters.set(Counter.GAUGE_LATE_WRITES, claims.late());
    counters.set(Counter.GAUGE_OPERATIONS, operations.active());
    // Operators swap policies.
    counters.set(
        Counter.GAUGE_INDEX_BYTES,
        directory.metadataBytes()
            + store.host().policyBytes()
            + store.ssd().policyBytes()
            + store.ingestion().policyBytes()
            + store.objectMoves().ingestion().policyBytes());
    store.publishGauges();
    devices.publishGauges();
  }

  /** Checks that nothing contradicts anything; for tests. */
  void checkInvariants() {
    store.checkInvariants();
    devices.checkInvariants();
    int operationsOfSessions = 0;
    int holdsOfSessions = 0;
    for (int place = 0; place < sessions.end(); place++) {
      Session session = sessions.at(place);
      if (session != null) {
        operationsOfSessions += session.operations;
        holdsOfSessions += session.holds;
      }
    }
    int held = 0;
    for (int block = 0; block < directory.highWater(); block++) {
      held += directory.isUsed(block) ? directory.holds(block) : 0;
    }
    int leasesAndPins = holds.count(HoldTable.LEASE) + holds.count(HoldTable.PIN);
    if (operationsOfSessions != operations.active() - operations.departed()
        || holdsOfSessions
            != leasesAndPins + holds.count(HoldTable.RESERVATION) + holds.count(HoldTable.LATE)
        || held != leasesAndPins + devices.leases()) {
      throw new IllegalStateException("operations or holds do not add up");
    }
  }
}
