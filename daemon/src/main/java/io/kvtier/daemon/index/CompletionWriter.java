package io.kvtier.daemon.index;

import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.slots.SlotAllocator;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/** Writes completions into the space that was promised for them. */
final class CompletionWriter {
  private final Directory directory;
  private final BlockStore store;
  private final Namespaces namespaces;
  private final RequestTap requests;

  // The completion whose results are being written one by one.
  private MemorySegment out = MemorySegment.NULL;
  private long at;
  private long next;
  private int written;
  private int run;
  private boolean silent;
  private int done;

  CompletionWriter(
      Directory directory, BlockStore store, Namespaces namespaces, RequestTap requests) {
    this.directory = directory;
    this.store = store;
    this.namespaces = namespaces;
    this.requests = requests;
  }

  /** A completion without results. */
  void completeShort(Session session, Request request, Status status, long value)
      throws ProtocolViolation {
    request.outcome = status;
    if (!request.has(RequestDescriptor.FLAG_SILENT)) {
      var _ =
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
    request.outcome = status;
    requests.refused(request, status, why);
    ProgressWord.refuse(session, request);
    if (!request.has(RequestDescriptor.FLAG_SILENT)) {
      session.completeText(
          request.verb.code(),
          status,
          request.correlationId,
          why,
          RequestAdapter.REFUSAL_BYTES_MAX);
    }
  }

  /**
   * Begins a completion with one short result a block: {@link #add} for each, then {@link #end}.
   */
  void begin(Session session, Request request) throws ProtocolViolation {
    begin(session, request, 0, 0);
  }

  /** The same, with so many bytes more behind the results, which the flags tell of. */
  private void begin(Session session, Request request, int flags, int bytesMore)
      throws ProtocolViolation {
    silent = request.has(RequestDescriptor.FLAG_SILENT);
    written = 0;
    run = 0;
    done = 0;
    if (!silent) {
      at =
          session.beginCompletion(
              CompletionDescriptor.recordBytes(request.verb, request.count) + bytesMore,
              request.verb.code(),
              flags,
              Status.OK,
              request.correlationId,
              request.count,
              0,
              0);
      out = session.segment();
      next = at + CompletionDescriptor.HEADER_BYTES;
    }
  }

  /** Begins a LOOKUP's: with the longest prefix that a region has, where there is one. */
  void beginLookup(Session session, Request request, int prefix, @Nullable Region holder)
      throws ProtocolViolation {
    if (holder == null) {
      begin(session, request);
      return;
    }
    begin(session, request, CompletionDescriptor.FLAG_PEERS, CompletionDescriptor.PEERS_BYTES);
    long peers = at + CompletionDescriptor.recordBytes(request.verb, request.count);
    Words.putInt(out, peers + CompletionDescriptor.PEERS_RUN_OFFSET, prefix);
    Words.putInt(out, peers + CompletionDescriptor.PEERS_REGION_OFFSET, holder.id);
    Words.putInt(out, peers + CompletionDescriptor.PEERS_GPU_OFFSET, holder.gpuOrdinal());
    Words.putInt(out, peers + CompletionDescriptor.PEERS_RANK_OFFSET, holder.rank);
  }

  void add(Status status, TierId tier) {
    run += run == written && status == Status.OK ? 1 : 0;
    done += status == Status.OK ? 1 : 0;
    written++;
    if (!silent) {
      Words.putInt(out, next, status.code() | tier.code() << 16);
      next += CompletionDescriptor.SHORT_RESULT_BYTES;
    }
  }

  /** How many results from the first on are OK. */
  int run() {
    return run;
  }

  void end(Request request, long value) {
    request.done = done;
    if (!silent) {
      Words.putInt(out, at + CompletionDescriptor.RUN_OFFSET, run);
      Words.putLong(out, at + CompletionDescriptor.VALUE_OFFSET, value);
    }
  }

  /** Answers an operation whose places are all decided. */
  void write(Session session, Operation operation) throws ProtocolViolation {
    Verb verb = operation.verb;
    String refusal = operation.refusal;
    if (refusal != null) {
      session.completeText(
          verb.code(),
          operation.outcome,
          operation.correlationId,
          refusal,
          RequestAdapter.REFUSAL_BYTES_MAX);
      return;
    }
    int count = operation.count;
    int leading = 0;
    while (leading < count && operation.status[leading] == 0) {
      leading++;
    }
    MemorySegment segment = session.segment();
    long completion =
        session.beginCompletion(
            CompletionDescriptor.recordBytes(verb, count),
            verb.code(),
            0,
            operation.outcome,
            operation.correlationId,
            count,
            leading,
            operation.value);
    long result = completion + CompletionDescriptor.HEADER_BYTES;
    int resultBytes = CompletionDescriptor.resultBytes(verb);
    boolean isLong = resultBytes == CompletionDescriptor.LONG_RESULT_BYTES;
    Namespaces.Namespace namespace = isLong ? namespaces.byId(operation.namespaceId) : null;
    int blockBytes = namespace == null ? 0 : (int) namespace.blockBytes();
    for (int i = 0; i < count; i++, result += resultBytes) {
      int packed = operation.status[i] | operation.tier[i] << 16;
      if (!isLong) {
        Words.putInt(segment, result, packed);
      } else if (operation.hold[i] == HoldTable.NONE) {
        Words.putInt(segment, result, packed);
        Words.putInt(segment, result + CompletionDescriptor.BLOCK_CHECKSUM_OFFSET, 0);
        Words.putLong(segment, result + CompletionDescriptor.BLOCK_ID_OFFSET, 0);
        Words.putLong(segment, result + CompletionDescriptor.BLOCK_SLAB_OFFSET, 0);
        Words.putLong(segment, result + CompletionDescriptor.BLOCK_OFFSET_OFFSET, 0);
      } else {
        writeHold(session, operation, i, packed, blockBytes, segment, result);
      }
    }
  }

  private void writeHold(
      Session session,
      Operation operation,
      int place,
      int packed,
      int blockBytes,
      MemorySegment segment,
      long result) {
    int block = operation.block[place];
    SlotAllocator slots = store.host().slots();
    int slot = store.host().slot(block);
    boolean verify = operation.verb == Verb.ACQUIRE && store.mustVerify(block, session.id());
    Words.putInt(
        segment, result, packed | (verify ? CompletionDescriptor.BLOCK_FLAG_VERIFY << 24 : 0));
    Words.putInt(
        segment, result + CompletionDescriptor.BLOCK_CHECKSUM_OFFSET, directory.checksum(block));
    Words.putLong(segment, result + CompletionDescriptor.BLOCK_ID_OFFSET, operation.holdId[place]);
    Words.putInt(segment, result + CompletionDescriptor.BLOCK_SLAB_OFFSET, slots.regionOf(slot));
    Words.putInt(segment, result + CompletionDescriptor.BLOCK_LENGTH_OFFSET, blockBytes);
    Words.putLong(segment, result + CompletionDescriptor.BLOCK_OFFSET_OFFSET, slots.offsetOf(slot));
  }
}
