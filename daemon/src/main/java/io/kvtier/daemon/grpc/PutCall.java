package io.kvtier.daemon.grpc;

import com.google.protobuf.ByteString;
import com.google.protobuf.CodedInputStream;
import com.google.protobuf.InvalidProtocolBufferException;
import io.kvtier.daemon.grpc.IndexAnswer.Grant;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.v1.PutChunk;
import io.kvtier.protocol.v1.PutHeader;
import io.kvtier.protocol.v1.PutRequest;
import io.kvtier.protocol.v1.PutResponse;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/**
 * A put: reserve, copy in, commit. Slots are reserved in windows of few bytes, as the chunks come
 * that need them; meanwhile the stream is paused. Each block is committed by itself once all its
 * bytes are in place.
 */
final class PutCall extends Call<PutRequest, PutResponse> {
  private static final int WINDOW_BYTES = 4 << 20;
  private static final int WINDOW_BLOCKS_MAX = 256;
  private static final Status NO_BYTES = Status.MISS;

  private @Nullable KeyBatch keys;
  private Status[] statuses = {};
  private int blockBytes;
  private @Nullable Status callStatus;
  private String callText = "";

  /** The window: keys from here up to there, and the slots that were granted for them. */
  private int windowFrom;

  private int windowTo;
  private long[] reservations = {};
  private IndexAnswer reserved = IndexAnswer.refusal(Status.OK, "");
  private boolean reserving;
  private long correlationId;
  private int commits;

  /** Chunks that came before their slots. */
  private final ArrayDeque<PutChunk> early = new ArrayDeque<>();

  /** Where the copying stands: a block of which some bytes have come, and how many. */
  private int block;

  private int offset;
  private CRC32C crc = new CRC32C();
  private @Nullable Integer checksum;
  private boolean requestsEnded;

  PutCall(Environment environment, Arrival<PutRequest, PutResponse> arrival) {
    super(environment, arrival);
  }

  @Override
  PutRequest parse(byte[] bytes) throws InvalidProtocolBufferException {
    CodedInputStream in = CodedInputStream.newInstance(bytes);
    in.enableAliasing(true);
    try {
      return PutRequest.parseFrom(in);
    } catch (InvalidProtocolBufferException e) {
      throw e;
    } catch (IOException e) {
      throw new InvalidProtocolBufferException(e);
    }
  }

  @Override
  void onMessage(PutRequest message) throws RefusedException {
    if (callStatus != null) {
      return; // the rest is thrown away
    }
    switch (message.getPartCase()) {
      case HEADER -> header(message.getHeader());
      case CHUNK -> {
        if (keys == null) {
          throw new RefusedException(Status.INVALID_ARGUMENT, "a chunk came before the header");
        }
        early.add(message.getChunk());
        takeChunks();
      }
      case PART_NOT_SET ->
          throw new RefusedException(
              Status.INVALID_ARGUMENT, "a message is neither a header nor a chunk");
    }
  }

  private void header(PutHeader header) throws RefusedException {
    if (keys != null) {
      throw new RefusedException(Status.INVALID_ARGUMENT, "a second header came");
    }
    KeyBatch batch = KeyBatch.of(header.getKeys());
    blockBytes = environment.namespaces().blockBytes(batch.namespaceId());
    keys = batch;
    statuses = new Status[batch.count()];
    Arrays.fill(statuses, NO_BYTES);
    named(header.getOperationId());
  }

  // ---- chunks
  // ---------------------------------------------------------------------------------------------------

  private void takeChunks() {
    while (!reserving && callStatus == null && !isOver()) {
      PutChunk chunk = early.peek();
      if (chunk == null) {
        return;
      }
      String wrong = check(chunk);
      if (wrong != null) {
        stop(Status.INVALID_ARGUMENT, wrong);
        return;
      }
      if (chunk.getBlock() >= windowTo) {
        reserve(chunk.getBlock());
        return;
      }
      early.poll();
      copy(chunk);
    }
  }

  private @Nullable String check(PutChunk chunk) {
    int of = chunk.getBlock();
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
    int size = chunk.getData().size();
    if (chunk.getOffset() != expected) {
      return "block "
          + of
          + ": a chunk at offset "
          + Long.toUnsignedString(chunk.getOffset())
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

  private void copy(PutChunk chunk) {
    if (chunk.getBlock() != block) {
      leaveBlock();
      block = chunk.getBlock();
    }
    ByteString data = chunk.getData();
    int place = block - windowFrom;
    if (reservations[place] != 0) {
      Grant grant = reserved.grant(place);
      MemorySegment.copy(
          MemorySegment.ofBuffer(data.asReadOnlyByteBuffer()),
          0,
          environment.slabs().apply(grant.slab()),
          grant.offset() + offset,
          data.size());
      crc.update(data.asReadOnlyByteBuffer());
    }
    offset += data.size();
    checksum = chunk.hasCrc32C() ? Integer.valueOf(chunk.getCrc32C()) : checksum;
    if (offset == blockBytes && reservations[place] != 0) {
      commit(place);
    }
  }

  /** No more bytes of the current block come. */
  private void leaveBlock() {
    int place = block - windowFrom;
    if (offset > 0 && place < reservations.length && reservations[place] != 0) {
      abort(place);
      statuses[block] = Status.INVALID_ARGUMENT;
    }
    offset = 0;
    crc = new CRC32C();
    checksum = null;
  }

  private void commit(int place) {
    int which = block;
    long id = reservations[place];
    if (checksum != null && checksum != (int) crc.getValue()) {
      abort(place);
      statuses[which] = Status.CORRUPT;
      return;
    }
    reservations[place] = 0;
    commits++;
    KeyBatch all = keys;
    int depth = all == null ? 0 : all.depth() + which;
    environment
        .gateway()
        .submit(
            IndexRequest.ofIds(Verb.COMMIT, depth, id),
            answer -> {
              commits--;
              statuses[which] =
                  answer.status() == Status.OK ? answer.blockStatus(0) : answer.status();
              progress();
              respondWhenDone();
            });
  }

  private void abort(int place) {
    environment.gateway().submitSilent(IndexRequest.ofIds(Verb.ABORT, 0, reservations[place]));
    reservations[place] = 0;
  }

  // ---- slots
  // ----------------------------------------------------------------------------------------------------

  private void reserve(int from) {
    KeyBatch all = keys;
    if (all == null) {
      return;
    }
    leaveBlock();
    abortWindow();
    int to =
        Math.min(all.count(), from + Math.clamp(WINDOW_BYTES / blockBytes, 1, WINDOW_BLOCKS_MAX));
    block = from;
    windowFrom = from;
    reserving = true;
    pause();
    correlationId =
        environment
            .gateway()
            .submit(
                IndexRequest.ofKeys(
                    Verb.RESERVE,
                    all.part(from, to),
                    0,
                    RequestDescriptor.PRIORITY_NORMAL,
                    deadlineNs()),
                answer -> onReserved(from, to, answer));
  }

  private void onReserved(int from, int to, IndexAnswer answer) {
    reserving = false;
    progress();
    reservations = answer.grantIds(to - from);
    reserved = answer;
    if (isOver() || callStatus != null) {
      abortWindow();
      resume();
      respondWhenDone();
      return;
    }
    if (answer.status() != Status.OK) {
      stop(answer.status(), answer.text());
      resume();
      return;
    }
    windowTo = to;
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

  private void abortWindow() {
    for (int place = 0; place < reservations.length; place++) {
      if (reservations[place] != 0) {
        abort(place);
      }
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
    leaveBlock();
    abortWindow();
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
      leaveBlock();
      abortWindow();
      respondWhenDone();
    }
  }

  @Override
  void refuse(Status status, String why) {
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
  void release() {
    environment.gateway().cancel(correlationId);
    early.clear();
    abortWindow();
  }
}
