package io.kvtier.daemon.grpc;

import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import io.kvtier.daemon.grpc.IndexAnswer.Grant;
import io.kvtier.protocol.Counted;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.v1.PutHeader;
import io.kvtier.protocol.v1.PutResponse;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.List;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/**
 * A put: reserve, copy in, commit. Slots are reserved in windows of few bytes, as the chunks come
 * that need them; meanwhile the stream is paused. The bytes go from where they came in to their
 * slot, and their checksum is made on the way. The whole blocks of a window are committed together,
 * or after a moment when the rest of the window does not come.
 */
final class PutCall extends Call<PutResponse> {
  private static final int WINDOW_BYTES = 4 << 20;
  private static final int WINDOW_BLOCKS_MAX = 256;
  private static final Status NO_BYTES = Status.MISS;

  private @Nullable KeyBatch keys;
  private List<ByteString> annotations = List.of();
  private Status[] statuses = {};
  private int blockBytes;
  private int importanceFlags;
  private @Nullable Status callStatus;
  private String callText = "";

  /** The window: keys from here up to there, and the slots that were granted for them. */
  private int windowFrom;

  private int windowTo;
  private long[] reservations = {};
  private IndexAnswer reserved = IndexAnswer.refusal(Status.OK, "");
  private boolean reserving;
  private long correlationId;

  /** The whole blocks that are to be committed: where they stand, and their checksums. */
  private int[] wholeBlocks = {};

  private int[] wholeChecksums = {};
  private int whole;
  private int commits;

  /** Chunks that came before their slots. */
  private final ArrayDeque<PutMessage> early = new ArrayDeque<>();

  /** Where the copying stands: a block of which some bytes have come, and how many. */
  private int block;

  private int offset;
  private CRC32C crc = new CRC32C();
  private @Nullable Integer checksum;
  private boolean requestsEnded;

  /** Blocks that were not stored, for what came of them. */
  private int incomplete;

  private int corrupt;

  PutCall(Environment environment, RemoteConnection connection, GrpcStream stream) {
    super(environment, connection, stream);
  }

  @Override
  void take(ReceivedMessage received) throws InvalidProtocolBufferException, RefusedException {
    if (callStatus != null) {
      return; // the rest is thrown away
    }
    PutMessage message = PutMessage.read(received);
    PutHeader header = message.header;
    if (header != null) {
      header(header);
    } else if (!message.isChunk) {
      throw new RefusedException(
          Status.INVALID_ARGUMENT, "a message is neither a header nor a chunk");
    } else if (keys == null) {
      throw new RefusedException(Status.INVALID_ARGUMENT, "a chunk came before the header");
    } else {
      early.add(message);
      takeChunks();
    }
  }

  private void header(PutHeader header) throws RefusedException {
    if (keys != null) {
      throw new RefusedException(Status.INVALID_ARGUMENT, "a second header came");
    }
    Namespaces.Namespace namespace = environment.namespace(header.getKeys().getNamespaceId());
    KeyBatch batch = KeyBatch.of(header.getKeys(), namespace.id());
    if (header.hasImportance()
        && Integer.compareUnsigned(header.getImportance(), RequestDescriptor.IMPORTANCE_MAX) > 0) {
      throw new RefusedException(
          Status.INVALID_ARGUMENT,
          "importance is "
              + Integer.toUnsignedString(header.getImportance())
              + ", expected 0 to 3");
    }
    importanceFlags =
        Records.importanceFlags(
            header.hasImportance() ? header.getImportance() : RequestDescriptor.IMPORTANCE_NORMAL);
    blockBytes = namespace.blockBytes();
    annotations = AnnotationEntries.of(header.getAnnotationsList(), batch.count());
    keys = batch;
    statuses = new Status[batch.count()];
    Arrays.fill(statuses, NO_BYTES);
    named(header.getOperationId());
  }

  // ---- chunks
  // ---------------------------------------------------------------------------------------------------

  private void takeChunks() {
    while (!reserving && callStatus == null && !isOver()) {
      PutMessage chunk = early.peek();
      if (chunk == null) {
        return;
      }
      String wrong = check(chunk);
      if (wrong != null) {
        refuse(Status.INVALID_ARGUMENT, wrong);
        return;
      }
      if (chunk.block >= windowTo) {
        reserve(chunk.block);
        return;
      }
      early.poll();
      copy(chunk);
    }
  }

  private @Nullable String check(PutMessage chunk) {
    int of = chunk.block;
    if (of < 0 || of >= statuses.length) {
      return "a chunk of block "
          + Integer.toUnsignedString(of)
          + ", expected 0 to "
          + (statuses.length - 1);
    }
    if (of < block) {
      return "a chunk of block " + of + " came after block " + block + " had begun";
    }
    int expected = of == block ? offset : 0;
    int size = chunk.data.length();
    if (chunk.offset != expected) {
      return "block "
          + of
          + ": a chunk at offset "
          + Long.toUnsignedString(chunk.offset)
          + ", expected "
          + expected;
    }
    if (size > environment.chunkBytes()) {
      return "block "
          + of
          + ": a chunk of "
          + size
          + " bytes, expected at most "
          + environment.chunkBytes()
          + " (grpc.chunk_bytes)";
    }
    if (size > blockBytes - expected) {
      return "block "
          + of
          + ": "
          + ((long) expected + size)
          + " bytes, but the namespace's blocks have "
          + blockBytes;
    }
    return null;
  }

  private void copy(PutMessage chunk) {
    if (chunk.block != block) {
      leaveBlock();
      block = chunk.block;
    }
    int place = block - windowFrom;
    if (reservations[place] != 0) {
      Grant grant = reserved.grant(place);
      chunk
          .message()
          .copy(chunk.data, environment.slabs().apply(grant.slab()), grant.offset() + offset, crc);
    }
    offset += chunk.data.length();
    checksum = chunk.crc32c == null ? checksum : chunk.crc32c;
    if (offset == blockBytes && chunk.data.length() > 0 && reservations[place] != 0) {
      blockIsWhole(place);
    }
  }

  /** No more bytes of the current block come. */
  private void leaveBlock() {
    int place = block - windowFrom;
    if (offset > 0
        && offset < blockBytes
        && place < reservations.length
        && reservations[place] != 0) {
      abort(place);
      statuses[block] = Status.INVALID_ARGUMENT;
      incomplete += callStatus == null ? 1 : 0; // else it is known why
    }
    offset = 0;
    crc = new CRC32C();
    checksum = null;
  }

  private void blockIsWhole(int place) {
    int sum = (int) crc.getValue();
    if (checksum != null && checksum != sum) {
      abort(place);
      statuses[block] = Status.CORRUPT;
      corrupt++;
      return;
    }
    wholeBlocks[whole] = block;
    wholeChecksums[whole++] = sum;
  }

  /** Commits the blocks that are whole. */
  private void commit() {
    if (whole == 0) {
      return;
    }
    int[] blocks = Arrays.copyOf(wholeBlocks, whole);
    int[] checksums = Arrays.copyOf(wholeChecksums, whole);
    long[] ids = new long[whole];
    for (int i = 0; i < ids.length; i++) {
      ids[i] = reservations[blocks[i] - windowFrom];
      reservations[blocks[i] - windowFrom] = 0;
    }
    whole = 0;
    commits++;
    var _ =
        submit(
            IndexRequest.commit(ids, checksums),
            answer -> {
              commits--;
              for (int i = 0; i < blocks.length; i++) {
                statuses[blocks[i]] =
                    answer.status() == Status.OK ? answer.blockStatus(i) : answer.status();
              }
              progress();
              respondWhenDone();
            });
  }

  private void abort(int place) {
    environment.gateway().submitSilent(IndexRequest.abort(reservations[place]));
    reservations[place] = 0;
  }

  // ---- slots
  // ----------------------------------------------------------------------------------------------------

  private void reserve(int from) {
    KeyBatch all = keys;
    if (all == null) {
      return;
    }
    leaveWindow();
    int to =
        Math.min(all.count(), from + Math.clamp(WINDOW_BYTES / blockBytes, 1, WINDOW_BLOCKS_MAX));
    block = from;
    windowFrom = from;
    reserving = true;
    pause();
    correlationId =
        submit(
            IndexRequest.ofKeys(
                Verb.RESERVE,
                all.part(from, to),
                RequestDescriptor.FLAG_CHECKSUMS | importanceFlags,
                RequestDescriptor.PRIORITY_NORMAL,
                deadlineNs()),
            answer -> onReserved(from, to, answer));
  }

  private void onReserved(int from, int to, IndexAnswer answer) {
    reserving = false;
    progress();
    reservations = answer.grantIds(to - from);
    reserved = answer;
    wholeBlocks = new int[to - from];
    wholeChecksums = new int[to - from];
    if (isOver() || callStatus != null) {
      abortWindow();
      resume();
      respondWhenDone();
      return;
    }
    if (answer.status() != Status.OK) {
      refuse(answer);
      resume();
      return;
    }
    windowTo = to;
    annotate(from, to);
    for (int i = 0; i < to - from; i++) {
      if (reservations[i] == 0) {
        statuses[from + i] = answer.blockStatus(i);
      }
    }
    takeChunks();
    if (!reserving) {
      resume();
    }
    respondWhenDone();
  }

  /** Before their commit, so that blocks have their annotations when they become visible. */
  private void annotate(int from, int to) {
    KeyBatch all = keys;
    if (all == null || annotations.isEmpty()) {
      return;
    }
    KeyBatch window = all.part(from, to);
    for (byte[] body :
        AnnotationEntries.bodies(
            window, annotations.subList(from, to), i -> reservations[i] != 0)) {
      var _ = submit(IndexRequest.annotate(window, body, deadlineNs()), answer -> progress());
    }
  }

  /** Commits what is whole of the window, and gives the rest of its slots back. */
  private void leaveWindow() {
    leaveBlock();
    commit();
    abortWindow();
  }

  private void abortWindow() {
    whole = 0;
    long[] ids = Arrays.stream(reservations).filter(id -> id != 0).toArray();
    if (ids.length > 0) {
      environment.gateway().submitSilent(IndexRequest.abort(ids));
      Arrays.fill(reservations, 0);
    }
  }

  // ---- ending
  // ---------------------------------------------------------------------------------------------------

  @Override
  void onRequestsEnd() {
    requestsEnded = true;
    respondWhenDone();
  }

  private void respondWhenDone() {
    if (!requestsEnded || reserving || isOver()) {
      return;
    }
    KeyBatch all = keys;
    if (all == null && callStatus == null) {
      refuse(Status.INVALID_ARGUMENT, "no header came");
      return;
    }
    leaveWindow();
    if (commits > 0) {
      return;
    }
    PutResponse.Builder response = PutResponse.newBuilder();
    Status status = callStatus;
    response.setOutcome(status == null ? Wire.ok() : Wire.outcome(status, callText));
    for (Status each : statuses) {
      boolean isStored = each == Status.OK;
      response.addBlocks(Wire.block(each, isStored ? TierId.HOST : TierId.NONE));
    }
    respond(response.build());
  }

  /** Takes no more bytes; the answer follows the client's last message. */
  private void stop(Status status, String why) {
    if (callStatus == null) {
      callStatus = status;
      callText = why;
      early.clear();
      leaveWindow();
      respondWhenDone();
    }
  }

  @Override
  void giveReason(Status status, String why) {
    if (keys == null) {
      respond(PutResponse.newBuilder().setOutcome(Wire.outcome(status, why)).build());
    } else {
      stop(status, why);
    }
  }

  @Override
  void cancelByClient() {
    environment.gateway().cancel(correlationId);
    stop(Status.CANCELLED, "cancelled by its client");
  }

  @Override
  boolean waitsForClient() {
    return !isHalfClosed() && !reserving;
  }

  @Override
  void tick(long nowNs) {
    commit(); // blocks don't wait long for the rest of their window
  }

  @Override
  void release() {
    environment.gateway().cancel(correlationId);
    early.clear();
    abortWindow();
    if (incomplete > 0) {
      tellRefusal(
          false,
          Counted.of(incomplete, "block") + " of a Put: INVALID_ARGUMENT: not all bytes came");
    }
    if (corrupt > 0) {
      tellRefusal(
          true,
          Counted.of(corrupt, "block") + " of a Put: CORRUPT: bytes do not match the checksum");
    }
  }
}
