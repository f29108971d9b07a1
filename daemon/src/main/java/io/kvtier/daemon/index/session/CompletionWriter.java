package io.kvtier.daemon.index.session;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.slots.SlotAllocator;
import java.lang.foreign.MemorySegment;

/** Writes completions into the space that was promised for them. */
public final class CompletionWriter {
  /** The most bytes of a completion that refuses a request in words. */
  public static final int REFUSAL_BYTES_MAX = 512;

  /** The most bytes of the completion of ADMIN, whose answer may be a list. */
  public static final int ADMIN_BYTES_MAX = 64 * 1024;

  /** The most bytes of the completion of STATS. */
  public static final int STATS_BYTES_MAX = 128 * 1024;

  private final Directory directory;
  private final ResidentTier first;
  private final Namespaces namespaces;
  private final RequestWatch requests;

  // The completion whose results are being written one by one.
  private MemorySegment out = MemorySegment.NULL;
  private long at;
  private long next;
  private int written;
  private int run;
  private boolean silent;
  private int done;

  public CompletionWriter(
      Directory directory, ResidentTier first, Namespaces namespaces, RequestWatch requests) {
    this.directory = directory;
    this.first = first;
    this.namespaces = namespaces;
    this.requests = requests;
  }

  /** A completion without results. */
  public void completeShort(Session session, Request request, Status status, long value)
      throws ProtocolViolation {
    request.outcome = status;
    if (!request.has(RequestDescriptor.FLAG_SILENT)) {
      long completion =
          session.beginCompletion(
              CompletionDescriptor.HEADER_BYTES,
              request.verb.code(),
              0,
              status,
              request.correlationId,
              0);
      Words.putLong(session.segment(), completion + CompletionDescriptor.VALUE_OFFSET, value);
    }
  }

  /** Refuses a request as a whole, with the reason in words. */
  public void refuse(Session session, Request request, Status status, String why)
      throws ProtocolViolation {
    request.outcome = status;
    requests.refused(request, status, why);
    ProgressWord.refuse(session, request);
    if (!request.has(RequestDescriptor.FLAG_SILENT)) {
      session.completeText(
          request.verb.code(), status, request.correlationId, why, REFUSAL_BYTES_MAX);
    }
  }

  /**
   * Begins a completion with one short result a block: {@link #add} for each, then {@link #end}.
   */
  public void begin(Session session, Request request) throws ProtocolViolation {
    begin(session, request, 0, 0);
  }

  /** Begins a completion with further bytes behind the results; the flags announce them. */
  private void begin(Session session, Request request, int flags, int bytesMore)
      throws ProtocolViolation {
    silent = request.has(RequestDescriptor.FLAG_SILENT);
    written = 0;
    run = 0;
    done = 0;
    if (!silent) {
      at =
          session.beginCompletion(
              Records.completion(request.verb, request.count) + bytesMore,
              request.verb.code(),
              flags,
              Status.OK,
              request.correlationId,
              request.count);
      out = session.segment();
      next = at + CompletionDescriptor.HEADER_BYTES;
    }
  }

  /**
   * As {@link #begin}, for a LOOKUP whose longest prefix an engine's region has.
   *
   * @param prefix the length of the prefix, in blocks
   * @param gpu the number of the region's GPU
   * @param rank the rank that the owner of the region gave itself
   */
  public void beginWithRegion(
      Session session, Request request, int prefix, int region, int gpu, int rank)
      throws ProtocolViolation {
    begin(session, request, CompletionDescriptor.FLAG_PEERS, CompletionDescriptor.PEERS_BYTES);
    long peers = at + Records.completion(request.verb, request.count);
    Words.putInt(out, peers + CompletionDescriptor.PEERS_RUN_OFFSET, prefix);
    Words.putInt(out, peers + CompletionDescriptor.PEERS_REGION_OFFSET, region);
    Words.putInt(out, peers + CompletionDescriptor.PEERS_GPU_OFFSET, gpu);
    Words.putInt(out, peers + CompletionDescriptor.PEERS_RANK_OFFSET, rank);
  }

  public void add(Status status, TierId tier) {
    run += run == written && status == Status.OK ? 1 : 0;
    done += status == Status.OK ? 1 : 0;
    written++;
    if (!silent) {
      Words.putInt(out, next, status.code() | tier.code() << 16);
      next += CompletionDescriptor.SHORT_RESULT_BYTES;
    }
  }

  public void end(Request request, long value) {
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
          verb.code(), operation.outcome, operation.correlationId, refusal, REFUSAL_BYTES_MAX);
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
            Records.completion(verb, count),
            verb.code(),
            0,
            operation.outcome,
            operation.correlationId,
            count);
    Words.putInt(segment, completion + CompletionDescriptor.RUN_OFFSET, leading);
    Words.putLong(segment, completion + CompletionDescriptor.VALUE_OFFSET, operation.value);
    long result = completion + CompletionDescriptor.HEADER_BYTES;
    int resultBytes = Records.result(verb);
    boolean isLong = resultBytes == CompletionDescriptor.LONG_RESULT_BYTES;
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
        writeHold(session, operation, i, packed, segment, result);
      }
    }
  }

  private void writeHold(
      Session session,
      Operation operation,
      int place,
      int packed,
      MemorySegment segment,
      long result) {
    int block = operation.block[place];
    SlotAllocator slots = first.slots();
    int slot = first.slot(block);
    boolean verify = operation.verb == Verb.ACQUIRE && first.mustVerify(block, session.id());
    int flags =
        (verify ? CompletionDescriptor.BLOCK_FLAG_VERIFY : 0)
            | (directory.has(Directory.FLAG_ENCODED, block)
                ? CompletionDescriptor.BLOCK_FLAG_ENCODED
                : 0);
    Words.putInt(segment, result, packed | flags << 24);
    Words.putInt(
        segment, result + CompletionDescriptor.BLOCK_CHECKSUM_OFFSET, directory.checksum(block));
    Words.putLong(segment, result + CompletionDescriptor.BLOCK_ID_OFFSET, operation.holdId[place]);
    Words.putInt(segment, result + CompletionDescriptor.BLOCK_SLAB_OFFSET, slots.regionOf(slot));
    Words.putInt(
        segment,
        result + CompletionDescriptor.BLOCK_LENGTH_OFFSET,
        namespaces.storedBytes(directory, block));
    Words.putLong(segment, result + CompletionDescriptor.BLOCK_OFFSET_OFFSET, slots.offsetOf(slot));
  }
}
