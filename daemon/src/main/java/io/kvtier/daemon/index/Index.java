package io.kvtier.daemon.index;

import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.Words;
import io.kvtier.tiers.slots.SlotAllocator;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The verbs: what a request does to the directory, the holds and the tiers, and how it is answered.
 * A request that needs no transfer is answered at once; the others become operations that end when
 * their last block is settled, their deadline passes, or their client cancels or dies. Confined to
 * the index's thread.
 */
final class Index implements BlockStore.Listener {
  /** The limits that configuration sets. */
  record Limits(
      int operationsMax,
      int holdsMax,
      int waitersMax,
      int sessionsMax,
      int holdsPerSessionMax,
      int operationsPerSessionMax,
      long leaseNs,
      long leaseNsMax,
      long deadlineNs,
      long deadlineNsMax) {}

  private static final int SCAN_PER_ROUND = 1024;

  private final Directory directory;
  private final SlotAllocator host;
  private final Namespaces namespaces;
  private final Counters counters;
  private final LongSupplier clock;
  private final Limits limits;
  private final BlockStore store;
  private final HoldTable holds;
  private final WaiterTable hostWaiters;
  private final WaiterTable storeWaiters;
  private final Operation[] operations;
  private final int[] operationStack;
  private int operationsFree;
  private int scans;
  private final LongQueue slotQueue;
  private final @Nullable Session[] sessions;
  private int sessionCount;
  private int sessionsEnd;

  Index(
      BlockStore.Parts parts, BlockStore.Limits storeLimits, Namespaces namespaces, Limits limits) {
    this.directory = parts.directory();
    this.host = parts.host();
    this.counters = parts.counters();
    this.clock = parts.clock();
    this.namespaces = namespaces;
    this.limits = limits;
    this.store = new BlockStore(parts, storeLimits, namespaces, this);
    this.holds = new HoldTable(limits.holdsMax);
    this.hostWaiters = new WaiterTable(limits.waitersMax);
    this.storeWaiters = new WaiterTable(limits.waitersMax);
    this.operations = new Operation[limits.operationsMax];
    this.operationStack = new int[limits.operationsMax];
    for (int i = limits.operationsMax - 1; i >= 0; i--) {
      operations[i] = new Operation(i);
      operationStack[operationsFree++] = i;
    }
    this.slotQueue = new LongQueue(limits.waitersMax);
    this.sessions = new Session[limits.sessionsMax];
  }

  BlockStore store() {
    return store;
  }

  HoldTable holds() {
    return holds;
  }

  // ---- sessions
  // ------------------------------------------------------------------------------------------------

  /** Takes a session in; false when there are too many. */
  boolean open(Session session) {
    for (int i = 0; i < sessions.length; i++) {
      if (sessions[i] == null) {
        session.index = i;
        sessions[i] = session;
        sessionCount++;
        sessionsEnd = Math.max(sessionsEnd, i + 1);
        counters.add(Counter.SESSIONS_OPENED, 1);
        counters.set(Counter.GAUGE_SESSIONS, sessionCount);
        return true;
      }
    }
    return false;
  }

  /** One past the last place in use. */
  int sessionsEnd() {
    return sessionsEnd;
  }

  @Nullable Session session(int place) {
    return sessions[place];
  }

  /**
   * Cuts a session off for a reason; what it holds is released when its owner says that it is
   * closed.
   */
  void end(Session session, Status reason, String why) {
    if (!session.ended) {
      session.markEnded(reason);
      counters.add(Counter.SESSIONS_ENDED_BAD, 1);
      session.owner().end(session, reason, why);
    }
  }

  /** Releases all that a session holds, at once. */
  void close(Session session) {
    if (session.index >= sessions.length || sessions[session.index] != session) {
      return;
    }
    for (Operation operation : operations) {
      if (operation.active && operation.sessionId == session.id()) {
        abandon(operation, Status.SESSION_ENDED);
      }
    }
    while (session.firstHold != HoldTable.NONE) {
      endHold(session.firstHold, session);
    }
    host.revoke(session.id());
    sessions[session.index] = null;
    while (sessionsEnd > 0 && sessions[sessionsEnd - 1] == null) {
      sessionsEnd--;
    }
    sessionCount--;
    counters.set(Counter.GAUGE_SESSIONS, sessionCount);
  }

  private void endHold(int hold, Session session) {
    int block = holds.block(hold);
    byte kind = holds.kind(hold);
    holds.free(hold, session);
    switch (kind) {
      case HoldTable.LEASE -> store.release(block);
      case HoldTable.RESERVATION -> store.abandon(block);
      default -> store.unpin(block);
    }
  }

  // ---- requests
  // ------------------------------------------------------------------------------------------------

  /** What the adapter read and checked of a request's header. */
  static final class Request {
    Verb verb = Verb.PING;
    int flags;
    int priority;
    int keyBytes;
    int keyStride;
    long correlationId;
    long deadlineNs;
    int namespaceId;
    int group;
    int count;
    long argument;
    int completionBytes;
    MemorySegment segment = MemorySegment.NULL;

    /** Where the first key, id or character stands. */
    long body;

    long key(int i) {
      return body + (long) i * keyStride;
    }

    boolean has(int flag) {
      return (flags & flag) != 0;
    }
  }

  /** Carries a request out, or begins to. Its completion's space is promised. */
  void handle(Session session, Request request) throws ProtocolViolation {
    counters.add(Counter.REQUESTS, 1);
    session.requestCount++;
    switch (request.verb) {
      case PING -> completeShort(session, request, Status.OK, 0);
      case REGISTER -> register(session, request);
      case UNREGISTER -> {
        boolean known = session.isRegistered(request.namespaceId);
        if (known) {
          session.namespaces.clear(request.namespaceId);
        }
        completeShort(session, request, known ? Status.OK : Status.NAMESPACE_UNKNOWN, 0);
      }
      case LOOKUP -> lookup(session, request);
      case RESERVE -> reserve(session, request);
      case COMMIT -> commit(session, request);
      case ABORT, RELEASE -> endHolds(session, request);
      case ACQUIRE -> acquire(session, request);
      case PREFETCH, PIN, UNPIN, DELETE -> eachBlock(session, request);
      case CLEAR, FLUSH -> scan(session, request);
      case CANCEL -> cancel(session, request);
      case STATS -> throw new IllegalStateException("statistics are the agent's");
    }
  }

  private void completeShort(Session session, Request request, Status status, long value)
      throws ProtocolViolation {
    if (!request.has(RequestDescriptor.FLAG_SILENT)) {
      session.beginCompletion(
          CompletionDescriptor.HEADER_BYTES,
          request.verb.code(),
          0,
          status,
          request.correlationId,
          0,
          0,
          value);
    }
  }

  /** Refuses a request as a whole, with the reason in words. */
  void refuse(Session session, Request request, Status status, String why)
      throws ProtocolViolation {
    if (!request.has(RequestDescriptor.FLAG_SILENT)) {
      session.completeText(
          request.verb.code(),
          status,
          request.correlationId,
          why,
          RequestAdapter.REFUSAL_BYTES_MAX);
    }
  }

  private void register(Session session, Request request) throws ProtocolViolation {
    byte[] utf8 = new byte[request.count];
    MemorySegment.copy(request.segment, request.body, MemorySegment.ofArray(utf8), 0, utf8.length);
    String text = new String(utf8, StandardCharsets.UTF_8);
    Map<String, String> properties = Namespaces.parse(text);
    if (properties == null) {
      refuse(
          session,
          request,
          Status.INVALID_ARGUMENT,
          "a registration is lines 'property=value', each property once, 'name' among them");
      return;
    }
    String name = properties.getOrDefault("name", "");
    long blockBytes = request.argument;
    Namespaces.Namespace known = namespaces.byName(name);
    if (known != null) {
      String difference = Namespaces.difference(known, blockBytes, properties);
      if (difference != null) {
        refuse(
            session,
            request,
            Status.NAMESPACE_MISMATCH,
            "namespace '" + name + "' is registered with other properties: " + difference);
        return;
      }
    } else {
      int hostClass =
          blockBytes > 0 && blockBytes <= Integer.MAX_VALUE
              ? host.sizeClass(blockBytes)
              : SlotAllocator.NONE;
      if (hostClass == SlotAllocator.NONE) {
        refuse(
            session,
            request,
            Status.INVALID_ARGUMENT,
            "block_bytes is "
                + blockBytes
                + ", expected 1 to the slab size (host.slab_bytes), of at most 64 different sizes");
        return;
      }
      if (namespaces.size() >= Namespaces.NAMESPACES_MAX) {
        refuse(
            session,
            request,
            Status.TOO_LARGE,
            "there are " + namespaces.size() + " namespaces already, which is the limit");
        return;
      }
      known =
          namespaces.add(name, blockBytes, properties, hostClass, store.ssdClassFor(blockBytes));
    }
    session.namespaces.set(known.id());
    completeShort(session, request, Status.OK, known.id());
  }

  // ---- lookup
  // --------------------------------------------------------------------------------------------------

  private void lookup(Session session, Request request) throws ProtocolViolation {
    int count = request.count;
    long at =
        session.beginCompletion(
            CompletionDescriptor.recordBytes(Verb.LOOKUP, count),
            Verb.LOOKUP.code(),
            0,
            Status.OK,
            request.correlationId,
            count,
            0,
            0);
    MemorySegment out = session.segment();
    long result = at + CompletionDescriptor.HEADER_BYTES;
    int run = 0;
    int hits = 0;
    int onSsd = 0;
    for (int i = 0; i < count; i++, result += CompletionDescriptor.SHORT_RESULT_BYTES) {
      int block =
          directory.find(
              request.namespaceId,
              request.group,
              request.keyBytes,
              request.segment,
              request.key(i));
      int packed;
      if (block == Directory.NONE) {
        packed = Status.MISS.code();
      } else if (directory.hostState(block) == CopyState.RESIDENT) {
        packed = TierId.HOST.code() << 16;
        hits++;
      } else if (directory.ssdState(block) == CopyState.RESIDENT) {
        packed = TierId.SSD.code() << 16;
        hits++;
        onSsd += run == i ? 1 : 0;
      } else {
        packed = Status.PENDING.code();
      }
      run += run == i && (packed & 0xffff) == 0 ? 1 : 0;
      Words.putInt(out, result, packed);
    }
    Namespaces.Namespace namespace = namespaces.byId(request.namespaceId);
    Words.putInt(out, at + CompletionDescriptor.RUN_OFFSET, run);
    Words.putLong(
        out,
        at + CompletionDescriptor.VALUE_OFFSET,
        namespace == null ? 0 : store.estimatedSsdReadNs(onSsd * namespace.blockBytes()));
    counters.add(Counter.LOOKUP_BLOCKS, count);
    counters.add(Counter.LOOKUP_HITS, hits);
  }

  // ---- operations
  // ----------------------------------------------------------------------------------------------

  private @Nullable Operation begin(Session session, Request request, int count)
      throws ProtocolViolation {
    if (operationsFree == 0 || session.operations >= limits.operationsPerSessionMax) {
      refuse(
          session,
          request,
          Status.BUSY,
          "too many operations in flight ("
              + session.operations
              + " of this session): wait for completions first");
      return null;
    }
    Operation operation = operations[operationStack[--operationsFree]];
    operation.active = true;
    operation.verb = request.verb;
    operation.sessionId = session.id();
    operation.sessionIndex = session.index;
    operation.correlationId = request.correlationId;
    operation.deadlineNs = request.deadlineNs;
    operation.namespaceId = request.namespaceId;
    operation.flags = request.flags;
    operation.priority = request.priority;
    operation.answerable = !request.has(RequestDescriptor.FLAG_SILENT);
    operation.size(count);
    session.operations++;
    return operation;
  }

  /**
   * Ends the operation if nothing of it is open; otherwise its completion's space stays promised.
   */
  private void endOrWait(Session session, Operation operation, Request request)
      throws ProtocolViolation {
    if (operation.open == 0) {
      complete(session, operation);
    } else {
      operation.reservedCompletionBytes = request.completionBytes;
      session.reservedCompletionBytes += request.completionBytes;
    }
  }

  private void complete(Session session, Operation operation) {
    session.reservedCompletionBytes -= operation.reservedCompletionBytes;
    operation.reservedCompletionBytes = 0;
    try {
      if (operation.answerable) {
        write(session, operation);
      }
    } catch (ProtocolViolation violation) {
      end(session, Status.INVALID_ARGUMENT, String.valueOf(violation.getMessage()));
    }
    recycle(session, operation);
  }

  private void recycle(Session session, Operation operation) {
    session.operations--;
    operation.active = false;
    operationStack[operationsFree++] = operation.poolIndex;
  }

  private void write(Session session, Operation operation) throws ProtocolViolation {
    Verb verb = operation.verb;
    int count = operation.count;
    dropEndedHolds(session, operation);
    int run = 0;
    while (run < count && operation.status[run] == 0) {
      run++;
    }
    MemorySegment out = session.segment();
    long at =
        session.beginCompletion(
            CompletionDescriptor.recordBytes(verb, count),
            verb.code(),
            0,
            operation.outcome,
            operation.correlationId,
            count,
            run,
            operation.value);
    long result = at + CompletionDescriptor.HEADER_BYTES;
    boolean isLong =
        CompletionDescriptor.resultBytes(verb) == CompletionDescriptor.LONG_RESULT_BYTES;
    for (int i = 0; i < count; i++) {
      int packed = operation.status[i] | operation.tier[i] << 16;
      if (!isLong) {
        Words.putInt(out, result, packed);
        result += CompletionDescriptor.SHORT_RESULT_BYTES;
        continue;
      }
      int hold = operation.hold[i];
      if (hold == HoldTable.NONE) {
        Words.putInt(out, result, packed);
        Words.putInt(out, result + CompletionDescriptor.BLOCK_CHECKSUM_OFFSET, 0);
        Words.putLong(out, result + CompletionDescriptor.BLOCK_ID_OFFSET, 0);
        Words.putLong(out, result + CompletionDescriptor.BLOCK_SLAB_OFFSET, 0);
        Words.putLong(out, result + CompletionDescriptor.BLOCK_OFFSET_OFFSET, 0);
      } else {
        int block = operation.block[i];
        int slot = directory.hostSlot(block);
        int slab = host.regionOf(slot);
        if (verb == Verb.ACQUIRE && store.mustVerify(block, session.id())) {
          packed |= CompletionDescriptor.BLOCK_FLAG_VERIFY << 24;
        }
        Namespaces.Namespace namespace = namespaces.byId(operation.namespaceId);
        Words.putInt(out, result, packed);
        Words.putInt(
            out, result + CompletionDescriptor.BLOCK_CHECKSUM_OFFSET, directory.checksum(block));
        Words.putLong(out, result + CompletionDescriptor.BLOCK_ID_OFFSET, holds.id(hold));
        Words.putInt(out, result + CompletionDescriptor.BLOCK_SLAB_OFFSET, slab);
        Words.putInt(
            out,
            result + CompletionDescriptor.BLOCK_LENGTH_OFFSET,
            namespace == null ? 0 : (int) namespace.blockBytes());
        Words.putLong(out, result + CompletionDescriptor.BLOCK_OFFSET_OFFSET, host.offsetOf(slot));
      }
      result += CompletionDescriptor.LONG_RESULT_BYTES;
    }
  }

  /** A lease may have ended while the operation waited for its other blocks. */
  private void dropEndedHolds(Session session, Operation operation) {
    byte kind = operation.verb == Verb.ACQUIRE ? HoldTable.LEASE : HoldTable.RESERVATION;
    for (int i = 0; i < operation.count; i++) {
      if (operation.hold[i] != HoldTable.NONE
          && holds.find(operation.holdId[i], kind, session) == HoldTable.NONE) {
        operation.hold[i] = HoldTable.NONE;
        decide(operation, i, Status.STALE, TierId.NONE);
      }
    }
  }

  private @Nullable Session sessionOf(Operation operation) {
    Session session = sessions[operation.sessionIndex];
    return session != null && session.id() == operation.sessionId ? session : null;
  }

  /** One place of an operation is decided. */
  private void decide(Operation operation, int place, Status status, TierId tier) {
    operation.status[place] = (byte) status.code();
    operation.tier[place] = (byte) tier.code();
  }

  // ---- acquire
  // -------------------------------------------------------------------------------------------------

  private void acquire(Session session, Request request) throws ProtocolViolation {
    Operation operation = begin(session, request, request.count);
    if (operation == null) {
      return;
    }
    long asked = request.argument;
    operation.leaseNs = asked <= 0 ? limits.leaseNs : Math.min(asked, limits.leaseNsMax);
    operation.value = clock.getAsLong() + operation.leaseNs;
    boolean leadingRun = request.has(RequestDescriptor.FLAG_LEADING_RUN);
    int count = request.count;
    int i = 0;
    for (; i < count; i++) {
      int block =
          directory.find(
              request.namespaceId,
              request.group,
              request.keyBytes,
              request.segment,
              request.key(i));
      if (block == Directory.NONE || !acquireOne(session, request, operation, i, block)) {
        decide(operation, i, Status.MISS, TierId.NONE);
        counters.add(Counter.MISSES, 1);
        if (leadingRun) {
          break;
        }
      }
    }
    for (int rest = i; rest < count; rest++) {
      decide(operation, rest, Status.MISS, TierId.NONE);
    }
    counters.add(Counter.ACQUIRE_BLOCKS, Math.min(count, i + 1));
    endOrWait(session, operation, request);
  }

  /** Leases a block, or waits for it; false when it is a miss. */
  private boolean acquireOne(
      Session session, Request request, Operation operation, int place, int block) {
    switch (directory.hostState(block)) {
      case RESIDENT -> {
        leaseNow(session, operation, place, block, TierId.HOST);
        return true;
      }
      case STAGING -> {
        boolean promoting = directory.ssdState(block) == CopyState.RESIDENT;
        if (request.has(RequestDescriptor.FLAG_NO_WAIT)) {
          decide(operation, place, Status.PENDING, promoting ? TierId.SSD : TierId.HOST);
        } else if (await(operation, place, block)) {
          operation.tier[place] = (byte) (promoting ? TierId.SSD : TierId.HOST).code();
          counters.add(Counter.JOINED, 1);
        }
        return true;
      }
      case RESERVED, LEAVING -> {
        return false;
      }
      case NONE -> {
        if (directory.ssdState(block) != CopyState.RESIDENT) {
          return false;
        }
      }
    }
    if (!store.promote(block, request.priority)) {
      decide(operation, place, Status.BUSY, TierId.SSD);
    } else if (request.has(RequestDescriptor.FLAG_NO_WAIT)) {
      decide(operation, place, Status.PENDING, TierId.SSD);
    } else if (await(operation, place, block)) {
      operation.tier[place] = (byte) TierId.SSD.code();
    }
    return true;
  }

  private boolean await(Operation operation, int place, int block) {
    int waiter = hostWaiters.add(block, operation.poolIndex, place);
    if (waiter == WaiterTable.NONE) {
      decide(operation, place, Status.BUSY, TierId.NONE);
      return false;
    }
    operation.waiter[place] = waiter;
    operation.block[place] = block;
    operation.open++;
    return true;
  }

  private void leaseNow(Session session, Operation operation, int place, int block, TierId from) {
    int hold =
        session.holds >= limits.holdsPerSessionMax
            ? HoldTable.NONE
            : holds.take(HoldTable.LEASE, block, session, operation.value);
    if (hold == HoldTable.NONE) {
      decide(operation, place, Status.BUSY, from);
      return;
    }
    store.lease(block);
    operation.block[place] = block;
    operation.hold[place] = hold;
    operation.holdId[place] = holds.id(hold);
    decide(operation, place, Status.OK, from);
    Namespaces.Namespace namespace = namespaces.byId(operation.namespaceId);
    counters.add(from == TierId.HOST ? Counter.HITS_HOST : Counter.HITS_SSD, 1);
    counters.add(Counter.HOST_READ_BYTES, namespace == null ? 0 : namespace.blockBytes());
  }

  @Override
  public void onHostSettled(int block, Status status) {
    for (int waiter = hostWaiters.take(block);
        waiter != WaiterTable.NONE;
        waiter = hostWaiters.take(block)) {
      Operation operation = operations[hostWaiters.operation(waiter)];
      int place = hostWaiters.place(waiter);
      hostWaiters.free(waiter);
      Session session = sessionOf(operation);
      if (session == null) {
        throw new IllegalStateException("an operation outlived its session");
      }
      if (status != Status.OK) {
        decide(
            operation,
            place,
            operation.verb == Verb.COMMIT ? Status.STALE : Status.MISS,
            TierId.NONE);
        counters.add(Counter.MISSES, operation.verb == Verb.ACQUIRE ? 1 : 0);
      } else if (operation.verb == Verb.ACQUIRE) {
        leaseNow(session, operation, place, block, TierId.of(operation.tier[place]));
      } else {
        decide(operation, place, Status.OK, TierId.HOST);
      }
      closePlace(session, operation);
    }
  }

  private void closePlace(Session session, Operation operation) {
    if (--operation.open == 0 && !operation.scanning) {
      complete(session, operation);
    }
  }

  // ---- put
  // -----------------------------------------------------------------------------------------------------

  private void reserve(Session session, Request request) throws ProtocolViolation {
    Namespaces.Namespace namespace = namespaces.byId(request.namespaceId);
    Operation operation = namespace == null ? null : begin(session, request, request.count);
    if (operation == null || namespace == null) {
      return;
    }
    for (int i = 0; i < request.count; i++) {
      int block =
          directory.find(
              request.namespaceId,
              request.group,
              request.keyBytes,
              request.segment,
              request.key(i));
      if (block != Directory.NONE) {
        boolean visible = store.isVisible(block);
        decide(operation, i, visible ? Status.EXISTS : Status.PENDING, TierId.NONE);
        counters.add(Counter.PUT_EXISTS, 1);
        continue;
      }
      block = directory.insertSought(request.namespaceId, request.group, request.keyBytes);
      if (block == Directory.NONE && store.forgetOne()) {
        block = directory.insertSought(request.namespaceId, request.group, request.keyBytes);
      }
      if (block == Directory.NONE) {
        busy(operation, i);
        continue;
      }
      // The pin keeps the record until the slot is there.
      store.pin(block);
      if (slotQueue.size() > 0 || !reserveOne(session, operation, i, block, namespace)) {
        if (!isStuck(operation, namespace)
            && slotQueue.offer((long) operation.poolIndex << 32 | i)) {
          operation.block[i] = block;
          operation.open++;
          store.addWaiting(namespace.hostClass(), 1);
        } else {
          store.unpin(block);
          busy(operation, i);
        }
      }
    }
    endOrWait(session, operation, request);
  }

  private void busy(Operation operation, int place) {
    decide(operation, place, Status.BUSY, TierId.NONE);
    counters.add(Counter.PUT_BUSY, 1);
  }

  /** Gives a pinned block its slot and its reservation; false while there is no slot. */
  private boolean reserveOne(
      Session session, Operation operation, int place, int block, Namespaces.Namespace namespace) {
    int hold =
        session.holds >= limits.holdsPerSessionMax
            ? HoldTable.NONE
            : holds.take(HoldTable.RESERVATION, block, session, 0);
    if (hold == HoldTable.NONE) {
      store.unpin(block);
      busy(operation, place);
      return true;
    }
    if (!store.reserve(block, namespace.hostClass(), session.id())) {
      holds.free(hold, session);
      return false;
    }
    directory.addPins(block, -1);
    int slab = host.regionOf(directory.hostSlot(block));
    if (session.id() != SlotAllocator.DAEMON && !session.mayWrite(slab)) {
      session.allowWrite(slab);
      host.addWriter(slab, session.id());
    }
    operation.block[place] = block;
    operation.hold[place] = hold;
    operation.holdId[place] = holds.id(hold);
    decide(operation, place, Status.OK, TierId.HOST);
    return true;
  }

  /**
   * Whether an operation waits for itself: it holds slots already, and nothing but their commit
   * would free one. It gets what it has, and BUSY for the rest.
   */
  private boolean isStuck(Operation operation, Namespaces.Namespace namespace) {
    if (store.isRoomComing(namespace.hostClass())) {
      return false;
    }
    for (int i = 0; i < operation.count; i++) {
      if (operation.hold[i] != HoldTable.NONE) {
        return true;
      }
    }
    return false;
  }

  private void serveSlotQueue() {
    for (int waiting = slotQueue.size(); waiting > 0; waiting--) {
      long item = slotQueue.poll();
      Operation operation = operations[(int) (item >>> 32)];
      int place = (int) item;
      Session session = sessionOf(operation);
      Namespaces.Namespace namespace = namespaces.byId(operation.namespaceId);
      if (session == null || namespace == null) {
        throw new IllegalStateException("an operation outlived its session");
      }
      boolean decided = reserveOne(session, operation, place, operation.block[place], namespace);
      if (!decided && isStuck(operation, namespace)) {
        store.unpin(operation.block[place]);
        busy(operation, place);
        decided = true;
      }
      if (!decided) {
        slotQueue.offer(item);
        // First come, first served: the others would only scan in vain. Turn the queue back to its
        // order.
        for (int rest = waiting - 1; rest > 0; rest--) {
          slotQueue.offer(slotQueue.poll());
        }
        return;
      }
      store.addWaiting(namespace.hostClass(), -1);
      closePlace(session, operation);
    }
  }

  private void commit(Session session, Request request) throws ProtocolViolation {
    Operation operation = begin(session, request, request.count);
    if (operation == null) {
      return;
    }
    boolean hasChecksums = request.has(RequestDescriptor.FLAG_CHECKSUMS);
    int stride = RequestDescriptor.idStride(request.flags);
    for (int i = 0; i < request.count; i++) {
      long at = request.body + (long) stride * i;
      int hold = holds.find(Words.getLong(request.segment, at), HoldTable.RESERVATION, session);
      if (hold == HoldTable.NONE) {
        decide(operation, i, Status.STALE, TierId.NONE);
        continue;
      }
      int block = holds.block(hold);
      holds.free(hold, session);
      if (hasChecksums) {
        store.commitChecksummed(block, Words.getInt(request.segment, at + 8));
      } else {
        store.commit(block);
      }
      if (directory.hostState(block) == CopyState.RESIDENT) {
        decide(operation, i, Status.OK, TierId.HOST);
      } else {
        await(operation, i, block);
      }
    }
    endOrWait(session, operation, request);
  }

  private void endHolds(Session session, Request request) throws ProtocolViolation {
    byte kind = request.verb == Verb.ABORT ? HoldTable.RESERVATION : HoldTable.LEASE;
    boolean silent = request.has(RequestDescriptor.FLAG_SILENT);
    MemorySegment out = session.segment();
    long result = 0;
    int run = 0;
    long at = 0;
    if (!silent) {
      at =
          session.beginCompletion(
              CompletionDescriptor.recordBytes(request.verb, request.count),
              request.verb.code(),
              0,
              Status.OK,
              request.correlationId,
              request.count,
              0,
              0);
      result = at + CompletionDescriptor.HEADER_BYTES;
    }
    for (int i = 0; i < request.count; i++) {
      int hold = holds.find(Words.getLong(request.segment, request.body + 8L * i), kind, session);
      if (hold != HoldTable.NONE) {
        endHold(hold, session);
        run += run == i ? 1 : 0;
      }
      if (!silent) {
        Words.putInt(out, result, hold == HoldTable.NONE ? Status.STALE.code() : 0);
        result += CompletionDescriptor.SHORT_RESULT_BYTES;
      }
    }
    if (!silent) {
      Words.putInt(out, at + CompletionDescriptor.RUN_OFFSET, run);
    }
  }

  // ---- prefetch, pins, deletion
  // ----------------------------------------------------------------------------------

  private void eachBlock(Session session, Request request) throws ProtocolViolation {
    int count = request.count;
    long at =
        session.beginCompletion(
            CompletionDescriptor.recordBytes(request.verb, count),
            request.verb.code(),
            0,
            Status.OK,
            request.correlationId,
            count,
            0,
            0);
    MemorySegment out = session.segment();
    long result = at + CompletionDescriptor.HEADER_BYTES;
    int run = 0;
    for (int i = 0; i < count; i++, result += CompletionDescriptor.SHORT_RESULT_BYTES) {
      int block =
          directory.find(
              request.namespaceId,
              request.group,
              request.keyBytes,
              request.segment,
              request.key(i));
      Status status =
          block == Directory.NONE
              ? Status.MISS
              : switch (request.verb) {
                case PREFETCH -> prefetch(block);
                case PIN -> pin(session, block);
                case UNPIN -> unpin(session, block);
                default -> delete(block);
              };
      run += run == i && status == Status.OK ? 1 : 0;
      Words.putInt(out, result, status.code());
    }
    Words.putInt(out, at + CompletionDescriptor.RUN_OFFSET, run);
  }

  private Status prefetch(int block) {
    if (directory.hostState(block) == CopyState.RESIDENT
        || directory.hostState(block) == CopyState.STAGING) {
      return Status.OK;
    }
    if (directory.ssdState(block) != CopyState.RESIDENT) {
      return Status.MISS;
    }
    return store.promote(block, RequestDescriptor.PRIORITY_LOW) ? Status.OK : Status.BUSY;
  }

  private Status pin(Session session, int block) {
    if (!store.isVisible(block)) {
      return Status.MISS;
    }
    int known = holds.pinOf(block, session);
    if (known != HoldTable.NONE) {
      return holds.pinAgain(known) ? Status.OK : Status.BUSY;
    }
    if (session.holds >= limits.holdsPerSessionMax
        || directory.pins(block) > 60_000
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
    if (!holds.unpinOnce(hold)) {
      endHold(hold, session);
    }
    return Status.OK;
  }

  private Status delete(int block) {
    if (!store.isVisible(block)) {
      return Status.MISS;
    }
    deleteUnpinned(block);
    return Status.OK;
  }

  /** Deletes a block and ends its pins: nobody can name it any more to take them back. */
  private void deleteUnpinned(int block) {
    if (directory.pins(block) > 0 && holds.count(HoldTable.PIN) > 0) {
      for (int hold = holds.anyPinOf(block); hold != HoldTable.NONE; hold = holds.anyPinOf(block)) {
        Session holder = sessions[holds.sessionIndex(hold)];
        if (holder == null) {
          throw new IllegalStateException("a pin outlived its session");
        }
        endHold(hold, holder);
      }
    }
    store.delete(block);
  }

  // ---- clear and flush
  // -----------------------------------------------------------------------------------------

  private void scan(Session session, Request request) throws ProtocolViolation {
    Operation operation = begin(session, request, 0);
    if (operation == null) {
      return;
    }
    operation.cursor = 0;
    operation.cursorEnd = directory.highWater();
    operation.scanning = true;
    scans++;
    operation.reservedCompletionBytes = request.completionBytes;
    session.reservedCompletionBytes += request.completionBytes;
  }

  private void continueScan(Session session, Operation operation) {
    // The scans share what one round may look at: however many there are, nobody waits longer.
    int looks = Math.max(1, SCAN_PER_ROUND / scans);
    int end = Math.min(operation.cursorEnd, operation.cursor + looks);
    while (operation.cursor < end) {
      int block = operation.cursor;
      if (directory.isUsed(block)
          && directory.isLinked(block)
          && directory.namespaceId(block) == operation.namespaceId
          && store.isVisible(block)) {
        if (operation.verb == Verb.CLEAR) {
          deleteUnpinned(block);
          operation.value++;
        } else if (!flushOne(operation, block)) {
          return;
        }
      }
      operation.cursor++;
    }
    if (operation.cursor >= operation.cursorEnd) {
      stopScanning(operation);
      if (operation.open == 0) {
        complete(session, operation);
      }
    }
  }

  private void stopScanning(Operation operation) {
    if (operation.scanning) {
      operation.scanning = false;
      scans--;
    }
  }

  /** Sees to it that a block gets to SSD; false while the pipeline is full. */
  private boolean flushOne(Operation operation, int block) {
    if (directory.hostState(block) != CopyState.RESIDENT || !store.canStore(block)) {
      return true;
    }
    CopyState ssd = directory.ssdState(block);
    if (ssd == CopyState.NONE && !store.startStore(block, false)) {
      return false;
    }
    if (ssd == CopyState.NONE || ssd == CopyState.STAGING) {
      if (storeWaiters.add(block, operation.poolIndex, 0) == WaiterTable.NONE) {
        return false;
      }
      operation.open++;
    }
    return true;
  }

  @Override
  public void onStoreSettled(int block, Status status) {
    for (int waiter = storeWaiters.take(block);
        waiter != WaiterTable.NONE;
        waiter = storeWaiters.take(block)) {
      Operation operation = operations[storeWaiters.operation(waiter)];
      storeWaiters.free(waiter);
      Session session = sessionOf(operation);
      if (session == null) {
        throw new IllegalStateException("an operation outlived its session");
      }
      operation.value += status == Status.OK ? 1 : 0;
      closePlace(session, operation);
    }
  }

  // ---- cancellation and deadlines
  // --------------------------------------------------------------------------------

  private void cancel(Session session, Request request) throws ProtocolViolation {
    Status found = Status.MISS;
    for (Operation operation : operations) {
      if (operation.active
          && operation.sessionId == session.id()
          && operation.correlationId == request.argument) {
        cutShort(session, operation, Status.CANCELLED);
        counters.add(Counter.CANCELLED, 1);
        found = Status.OK;
        break;
      }
    }
    completeShort(session, request, found, 0);
  }

  /**
   * Decides every open place of an operation, and completes it. Transfers under way go on for the
   * cache's sake.
   */
  private void cutShort(Session session, Operation operation, Status status) {
    closeOpenPlaces(session, operation, status);
    complete(session, operation);
  }

  /**
   * The client is gone: nothing is answered, everything taken is given back by the end of the
   * session.
   */
  private void abandon(Operation operation, Status status) {
    Session session = sessionOf(operation);
    if (session == null) {
      throw new IllegalStateException("an operation outlived its session");
    }
    closeOpenPlaces(session, operation, status);
    session.reservedCompletionBytes -= operation.reservedCompletionBytes;
    operation.reservedCompletionBytes = 0;
    recycle(session, operation);
  }

  private void closeOpenPlaces(Session session, Operation operation, Status status) {
    if (operation.count == 0) {
      operation.outcome = status;
    }
    stopScanning(operation);
    switch (operation.verb) {
      case RESERVE -> {
        for (int queued = slotQueue.size(); queued > 0; queued--) {
          long item = slotQueue.poll();
          if ((int) (item >>> 32) == operation.poolIndex) {
            int place = (int) item;
            Namespaces.Namespace namespace = namespaces.byId(operation.namespaceId);
            if (namespace != null) {
              store.addWaiting(namespace.hostClass(), -1);
            }
            decide(operation, place, status, TierId.NONE);
            store.unpin(operation.block[place]);
            counters.add(Counter.PUT_BUSY, 1);
          } else {
            slotQueue.offer(item);
          }
        }
      }
      case FLUSH, CLEAR -> {
        if (operation.open > 0) {
          storeWaiters.removeAll(operation.poolIndex);
        }
      }
      default -> {
        for (int i = 0; i < operation.count && operation.open > 0; i++) {
          if (hostWaiters.remove(operation.waiter[i], operation.poolIndex, i)) {
            decide(operation, i, status, TierId.NONE);
            operation.open--;
          }
        }
      }
    }
    operation.open = 0;
    if (session.ended) {
      operation.answerable = false;
    }
  }

  /** The work of each round: what waits for slots, scans, deadlines, leases that end. */
  void maintain() {
    if (slotQueue.size() > 0) {
      serveSlotQueue();
    }
    if (scans > 0) {
      for (Operation operation : operations) {
        Session session = operation.active && operation.scanning ? sessionOf(operation) : null;
        if (session != null) {
          continueScan(session, operation);
        }
      }
    }
  }

  /** Ends operations and leases whose time is over; called every few milliseconds. */
  void checkTime(long nowNs) {
    if (operationsFree < operations.length) {
      for (Operation operation : operations) {
        if (operation.active && nowNs >= operation.deadlineNs) {
          Session session = sessionOf(operation);
          if (session != null) {
            counters.add(Counter.DEADLINES, Math.max(1, operation.open));
            cutShort(session, operation, Status.DEADLINE);
          }
        }
      }
    }
    for (int hold = holds.expired(nowNs); hold != HoldTable.NONE; hold = holds.expired(nowNs)) {
      Session session = sessions[holds.sessionIndex(hold)];
      if (session == null) {
        throw new IllegalStateException("a lease outlived its session");
      }
      counters.add(Counter.LEASES_EXPIRED, 1);
      endHold(hold, session);
    }
  }

  /** Whether time must be looked at soon. */
  boolean hasDeadlines() {
    return operationsFree < operations.length || holds.count(HoldTable.LEASE) > 0;
  }

  /** Whether each round may find something to do by itself. */
  boolean hasBackgroundWork() {
    return scans > 0 && store.isIdle();
  }

  void publishGauges() {
    counters.set(Counter.GAUGE_LEASES, holds.count(HoldTable.LEASE));
    counters.set(Counter.GAUGE_RESERVATIONS, holds.count(HoldTable.RESERVATION));
    counters.set(Counter.GAUGE_OPERATIONS, operations.length - operationsFree);
    store.publishGauges();
  }

  /** Checks that nothing contradicts anything; for tests. */
  void checkInvariants() {
    store.checkInvariants();
    int operationsOfSessions = 0;
    int holdsOfSessions = 0;
    for (Session session : sessions) {
      if (session != null) {
        operationsOfSessions += session.operations;
        holdsOfSessions += session.holds;
      }
    }
    int leases = 0;
    for (int block = 0; block < directory.highWater(); block++) {
      leases += directory.isUsed(block) ? directory.leases(block) : 0;
    }
    if (operationsOfSessions != operations.length - operationsFree
        || holdsOfSessions
            != holds.count(HoldTable.LEASE)
                + holds.count(HoldTable.RESERVATION)
                + holds.count(HoldTable.PIN)
        || leases != holds.count(HoldTable.LEASE)) {
      throw new IllegalStateException("operations, holds or leases do not add up");
    }
  }
}
