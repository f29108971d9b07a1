package io.kvtier.daemon.index.report;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.TransferWatch;
import io.kvtier.daemon.index.session.Operation;
import io.kvtier.daemon.index.session.OperationPool;
import io.kvtier.daemon.index.session.Request;
import io.kvtier.daemon.index.session.RequestOrigin;
import io.kvtier.daemon.index.session.RequestWatch;
import io.kvtier.daemon.index.session.ServedBlock;
import io.kvtier.daemon.index.session.WaiterTable;
import io.kvtier.protocol.Counted;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.RequestBody;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.transfer.Inbox;
import io.kvtier.tiers.transfer.TracedRequest;
import io.kvtier.tiers.transfer.Transfer;
import java.lang.foreign.MemorySegment;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Reports requests that have an id: their failures and, if they are traced, the duration of the
 * requests and of their transfers. The reports go through a bounded queue to the thread that writes
 * lines and sends spans; reports that find no room are counted. Nothing is allocated for a request
 * without an id. Confined to the index, except for the queue, {@link #refusedOutside} and {@link
 * #served}.
 */
public final class RequestTap implements RequestWatch, TransferWatch {
  private static final int QUEUE = 1 << 13;

  /** Maximum blocks whose traced writers are remembered until the blocks are stored. */
  private static final int WRITTEN_MAX = 1 << 12;

  private static final Set<Status> TOLD =
      EnumSet.of(
          Status.BUSY,
          Status.DEADLINE,
          Status.NAMESPACE_UNKNOWN,
          Status.NAMESPACE_MISMATCH,
          Status.INVALID_ARGUMENT,
          Status.CORRUPT,
          Status.STALE,
          Status.DENIED,
          Status.SESSION_ENDED,
          Status.IO_ERROR,
          Status.TOO_LARGE,
          Status.INTERNAL);
  private static final Set<Status> WARNED =
      EnumSet.of(Status.CORRUPT, Status.IO_ERROR, Status.INTERNAL);

  /** The traced request that wrote a block, and the tiers that still have to store the block. */
  private static final class Writer {
    private final long traceHigh;
    private final long traceLow;
    private final long spanId;
    private int tiersLeft;

    private Writer(RequestOrigin origin, int tiers) {
      traceHigh = origin.traceHigh;
      traceLow = origin.traceLow;
      spanId = origin.spanId;
      tiersLeft = tiers;
    }
  }

  private final Inbox<RequestTold> told = new Inbox<>(QUEUE);
  private final boolean isTracing;
  private final double share;
  private final LongSupplier clock;
  private final Counters counters;
  private final SplittableRandom random = new SplittableRandom();
  private final Map<Integer, Writer> written =
      new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<Integer, Writer> eldest) {
          return size() > WRITTEN_MAX;
        }
      };
  private @Nullable WaiterTable waiters;
  private @Nullable OperationPool operations;
  private @Nullable Namespaces namespaces;
  private int storedTiers;
  private int named;

  /** The request that is being handled, if it is traced: reads can begin before it waits. */
  private @Nullable RequestOrigin handling;

  /**
   * A tap.
   *
   * @param isTracing whether spans are sent
   * @param share the share of requests without a context that are traced, 0 to 1
   */
  public RequestTap(boolean isTracing, double share, LongSupplier clock, Counters counters) {
    this.isTracing = isTracing;
    this.share = isTracing ? share : 0;
    this.clock = clock;
    this.counters = counters;
  }

  /** The queue of reports, for one reading thread. */
  public Inbox<RequestTold> told() {
    return told;
  }

  /**
   * Sets the tables of operations and of the blocks that they wait for.
   *
   * @param stored the tiers in which blocks are stored
   */
  public void connect(WaiterTable ofHost, OperationPool all, Namespaces names, Set<TierId> stored) {
    waiters = ofHost;
    operations = all;
    namespaces = names;
    storedTiers = stored.stream().mapToInt(RequestTap::bit).sum();
  }

  private static int bit(TierId tier) {
    return 1 << tier.code();
  }

  private void tell(RequestTold what) {
    if (!told.offer(what)) {
      counters.countDroppedSpans(1);
    }
  }

  private long newId() {
    long id = random.nextLong();
    return id == 0 ? 1 : id;
  }

  // ---- requests

  @Override
  public void arrived(Request request, MemorySegment segment, long context, long nowNs)
      throws ProtocolViolation {
    RequestOrigin origin = request.origin;
    handling = null;
    if (context != 0) {
      origin.read(segment, context, isTracing, nowNs);
      if (origin.isTraced) {
        origin.spanId = newId();
      }
    } else {
      origin.clear();
      if (share > 0 && !request.has(RequestDescriptor.FLAG_SILENT) && random.nextDouble() < share) {
        origin.traceHigh = newId();
        origin.traceLow = newId();
        origin.parentId = 0;
        origin.spanId = newId();
        origin.writtenNs = nowNs;
        origin.isTraced = true;
      }
    }
    handling = origin.isTraced ? origin : null;
  }

  @Override
  public void handled() {
    handling = null;
  }

  @Override
  public void refused(Request request, Status status, String why) {
    RequestOrigin origin = request.origin;
    if (!origin.isNone() && TOLD.contains(status)) {
      line(
          origin,
          WARNED.contains(status),
          request.verb + " refused: " + status + (why.isEmpty() ? "" : ": " + why));
    }
  }

  /**
   * Reports a refusal of which the index does not hear; from any thread.
   *
   * @param context the caller's context; null when the request has no id: then nothing is reported
   */
  public void refusedOutside(@Nullable TraceContext context, boolean isWarning, String what) {
    if (context != null) {
      tell(new RequestTold.Refusal(context.traceHigh(), context.traceLow(), isWarning, what));
    }
  }

  @Override
  public void answered(Request request) {
    RequestOrigin origin = request.origin;
    if (origin.isTraced) {
      span(
          origin,
          request.verb,
          request.namespaceId,
          request.verb.body() == RequestBody.TEXT ? 0 : request.count,
          request.done,
          request.outcome,
          origin.writtenNs);
    }
  }

  @Override
  public void foundCorrupt(Request request) {
    if (!request.origin.isNone()) {
      line(
          request.origin,
          true,
          request.verb
              + ": bytes that do not match the checksum, in "
              + Counted.of(request.count, "block"));
    }
  }

  @Override
  public void began(Operation operation, RequestOrigin origin) {
    operation.origin.set(origin);
    named += origin.isNone() ? 0 : 1;
  }

  @Override
  public void ended(Operation operation) {
    RequestOrigin origin = operation.origin;
    if (origin.isNone()) {
      return;
    }
    named--;
    int done = 0;
    boolean isToTell = TOLD.contains(operation.outcome);
    for (int i = 0; i < operation.count; i++) {
      done += operation.status[i] == 0 ? 1 : 0;
      isToTell |= operation.status[i] != 0 && TOLD.contains(Status.of(operation.status[i]));
    }
    if (isToTell) {
      tellOf(operation);
    }
    if (origin.isTraced) {
      Status status = operation.outcome;
      for (int i = 0; i < operation.count && status == Status.OK; i++) {
        Status each = Status.of(operation.status[i]);
        status = TOLD.contains(each) ? each : Status.OK;
      }
      span(
          origin,
          operation.verb,
          operation.namespaceId,
          operation.count,
          done,
          status,
          operation.beganNs);
    }
  }

  private void tellOf(Operation operation) {
    int[] counts = new int[Status.values().length];
    boolean isWarning = WARNED.contains(operation.outcome);
    for (int i = 0; i < operation.count; i++) {
      Status status = Status.of(operation.status[i]);
      counts[status.code()]++;
      isWarning |= WARNED.contains(status);
    }
    StringBuilder text = new StringBuilder();
    text.append(operation.verb);
    if (operation.outcome != Status.OK) {
      text.append(": ").append(operation.outcome);
      if (operation.refusal != null) {
        text.append(": ").append(operation.refusal);
      }
    }
    if (operation.count > 0) {
      text.append(" of ").append(Counted.of(operation.count, "block"));
    }
    String separator = ": ";
    for (Status status : TOLD) {
      if (counts[status.code()] > 0) {
        text.append(separator).append(counts[status.code()]).append(' ').append(status);
        separator = ", ";
      }
    }
    text.append(", after ")
        .append((clock.getAsLong() - operation.beganNs) / 1_000_000)
        .append(" ms");
    line(operation.origin, isWarning, text.toString());
  }

  private void line(RequestOrigin origin, boolean isWarning, String text) {
    tell(new RequestTold.Line(origin.traceHigh, origin.traceLow, isWarning, text));
  }

  private void span(
      RequestOrigin origin,
      Verb verb,
      int namespaceId,
      int blocks,
      int done,
      Status status,
      long takenNs) {
    Namespaces names = namespaces;
    boolean isOfNamespace =
        Records.hasKeys(verb.body()) || verb == Verb.CLEAR || verb == Verb.FLUSH;
    Namespaces.Namespace namespace =
        names == null || !isOfNamespace ? null : names.byId(namespaceId);
    boolean movesBytes =
        verb == Verb.ACQUIRE
            || verb == Verb.RESERVE
            || verb == Verb.OFFLOAD
            || verb == Verb.ONBOARD;
    tell(
        new RequestTold.Span(
            new RequestTold.SpanIds(
                origin.traceHigh, origin.traceLow, origin.spanId, origin.parentId),
            "kvtier." + verb.name().toLowerCase(Locale.ROOT),
            true,
            new RequestTold.SpanWork(
                namespace == null ? "" : namespace.name(),
                blocks,
                done,
                namespace == null || !movesBytes ? 0 : done * namespace.blockBytes(),
                Math.max(0, takenNs - origin.writtenNs)),
            status,
            origin.writtenNs,
            clock.getAsLong()));
  }

  // ---- transfers

  @Override
  public void wrote(int block, RequestOrigin origin) {
    if (origin.isTraced && storedTiers != 0) {
      written.put(block, new Writer(origin, storedTiers));
    }
  }

  @Override
  public void forgot(int block) {
    if (!written.isEmpty()) {
      written.remove(block);
    }
  }

  @Override
  public boolean isInterested() {
    return named > 0 || !written.isEmpty();
  }

  @Override
  public void fetching(Transfer transfer) {
    RequestOrigin origin = handling == null ? waiting(transfer.block) : handling;
    transfer.request =
        origin == null ? null : new TracedRequest(origin.traceHigh, origin.traceLow, origin.spanId);
  }

  /** A traced request that waits for a block; null if there is none. */
  private @Nullable RequestOrigin waiting(int block) {
    WaiterTable table = waiters;
    OperationPool all = operations;
    if (!isTracing || named == 0 || table == null || all == null) {
      return null;
    }
    for (int waiter = table.first(block);
        waiter != WaiterTable.NONE;
        waiter = table.next(waiter, block)) {
      RequestOrigin origin = all.at(table.operation(waiter)).origin;
      if (origin.isTraced) {
        return origin;
      }
    }
    return null;
  }

  /** Reports a block that another node wanted; from any thread. */
  public void served(ServedBlock block) {
    if (isTracing) {
      TracedRequest request = block.request();
      boolean isOk = block.status() == Status.OK;
      tell(
          new RequestTold.Span(
              new RequestTold.SpanIds(
                  request.traceHigh(),
                  request.traceLow(),
                  ThreadLocalRandom.current().nextLong(1, Long.MAX_VALUE),
                  request.spanId()),
              "node.send",
              true,
              new RequestTold.SpanWork(
                  "",
                  1,
                  isOk ? 1 : 0,
                  isOk ? block.bytes() : 0,
                  Math.max(0, block.readyNs() - block.startNs())),
              block.status(),
              block.startNs(),
              block.endNs()));
    }
  }

  @Override
  public void settled(Transfer transfer, TierId tier, boolean isAwaited) {
    boolean isStore = transfer.kind == Transfer.Kind.STORE;
    WaiterTable table = waiters;
    int first =
        isAwaited && named > 0 && table != null ? table.first(transfer.block) : WaiterTable.NONE;
    Writer writer = isStore && !written.isEmpty() ? written.get(transfer.block) : null;
    if (first == WaiterTable.NONE && writer == null) {
      return;
    }
    String name =
        switch (transfer.kind) {
          case CHECKSUM -> nameOf(tier) + ".checksum";
          case LOAD -> tier == TierId.OBJECT ? "object.get" : nameOf(tier) + ".read";
          case STORE -> tier == TierId.OBJECT ? "object.put" : nameOf(tier) + ".write";
          case FORGET -> throw new IllegalStateException("nobody asks for a row to be forgotten");
        };
    long endNs = clock.getAsLong();
    if (table != null && first != WaiterTable.NONE) {
      tellWaiting(table, first, name, transfer, endNs);
    }
    if (writer != null) {
      transfer(name, transfer, writer.traceHigh, writer.traceLow, writer.spanId, endNs);
      if (transfer.status == Status.OK) {
        writer.tiersLeft &= ~bit(tier);
      }
      if (writer.tiersLeft == 0) {
        written.remove(transfer.block);
      }
    }
  }

  private void tellWaiting(
      WaiterTable table, int first, String name, Transfer transfer, long endNs) {
    OperationPool all = operations;
    for (int waiter = first;
        all != null && waiter != WaiterTable.NONE;
        waiter = table.next(waiter, transfer.block)) {
      Operation operation = all.at(table.operation(waiter));
      RequestOrigin origin = operation.origin;
      if (!origin.isNone() && transfer.status != Status.OK) {
        line(origin, true, operation.verb + ": " + name + " of a block failed: " + transfer.status);
      }
      if (origin.isTraced) {
        transfer(name, transfer, origin.traceHigh, origin.traceLow, origin.spanId, endNs);
      }
    }
  }

  private void transfer(
      String name, Transfer transfer, long traceHigh, long traceLow, long parentId, long endNs) {
    boolean isOk = transfer.status == Status.OK;
    tell(
        new RequestTold.Span(
            new RequestTold.SpanIds(traceHigh, traceLow, newId(), parentId),
            name,
            false,
            new RequestTold.SpanWork(
                "",
                1,
                isOk ? 1 : 0,
                isOk ? transfer.length : 0,
                Math.max(0, endNs - transfer.offeredNs - transfer.elapsedNs)),
            transfer.status,
            Math.min(transfer.offeredNs, endNs),
            endNs));
  }

  private static String nameOf(TierId tier) {
    return tier.name().toLowerCase(Locale.ROOT);
  }
}
