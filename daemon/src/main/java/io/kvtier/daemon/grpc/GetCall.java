package io.kvtier.daemon.grpc;

import com.google.protobuf.InvalidProtocolBufferException;
import io.kvtier.daemon.grpc.IndexAnswer.Grant;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.v1.GetRequest;
import io.kvtier.protocol.v1.GetResponse;
import io.vertx.core.buffer.Buffer;
import io.vertx.grpc.common.GrpcStatus;
import java.io.IOException;
import java.util.Arrays;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/**
 * A get: acquire, copy out, release. The keys are taken in windows of few bytes; while one is
 * copied out the next is acquired, so that a call holds at most two windows of leases, and no more
 * copied bytes than its stream takes.
 */
final class GetCall extends Call<GetRequest, GetResponse> {
  /** The bytes of a window, unless one block is larger. */
  static final int WINDOW_BYTES = 4 << 20;

  private static final int WINDOW_BLOCKS_MAX = 256;
  private static final int CHUNKS_PER_TURN = 8;

  private record Window(int from, IndexAnswer answer) {
    int to() {
      return from + answer.count();
    }
  }

  private @Nullable GetRequest message;
  private @Nullable KeyBatch keys;
  private int blockBytes;
  private int flags;
  private int priority;

  /** The first key of which nothing has been asked yet. */
  private int nextToAcquire;

  private long correlationId;
  private boolean acquiring;
  private @Nullable Status restStatus;
  private @Nullable Window current;
  private @Nullable Window ready;

  /** Where the copying stands. */
  private int block;

  private int offset;
  private @Nullable CRC32C crc;
  private boolean draining;

  GetCall(Environment environment, Arrival<GetRequest, GetResponse> arrival) {
    super(environment, arrival);
  }

  @Override
  GetRequest parse(byte[] bytes) throws InvalidProtocolBufferException {
    return GetRequest.parseFrom(bytes);
  }

  @Override
  void onMessage(GetRequest received) {
    message = received;
  }

  @Override
  void onRequestsEnd() throws RefusedException {
    GetRequest received = message;
    if (received == null) {
      fail(GrpcStatus.INVALID_ARGUMENT, "no message came");
      return;
    }
    KeyBatch batch = KeyBatch.of(received.getKeys());
    blockBytes = environment.namespaces().blockBytes(batch.namespaceId());
    priority = Wire.priority(received.getPriority());
    flags =
        (received.getLeadingRun() ? RequestDescriptor.FLAG_LEADING_RUN : 0)
            | (received.getNoWait() ? RequestDescriptor.FLAG_NO_WAIT : 0);
    keys = batch;
    named(received.getOperationId());
    acquire();
  }

  @Override
  void refuse(Status status, String why) {
    respond(GetResponse.newBuilder().setRefusal(Wire.outcome(status, why)).build());
  }

  // ---- acquiring
  // ------------------------------------------------------------------------------------------------

  private static int windowBlocks(int blockBytes) {
    return Math.clamp(WINDOW_BYTES / blockBytes, 1, WINDOW_BLOCKS_MAX);
  }

  private void acquire() {
    KeyBatch all = keys;
    if (all == null
        || acquiring
        || ready != null
        || restStatus != null
        || isOver()
        || nextToAcquire == all.count()) {
      return;
    }
    int from = nextToAcquire;
    int to = Math.min(all.count(), from + windowBlocks(blockBytes));
    nextToAcquire = to;
    acquiring = true;
    correlationId =
        environment
            .gateway()
            .submit(
                IndexRequest.ofKeys(
                    Verb.ACQUIRE, all.part(from, to), flags, priority, deadlineNs()),
                answer -> onAcquired(from, answer));
  }

  private void onAcquired(int from, IndexAnswer answer) {
    acquiring = false;
    progress();
    if (isOver()) {
      releaseLeases(answer, 0);
      return;
    }
    if (answer.status() != Status.OK) {
      if (from == 0) {
        refuse(answer.status(), answer.text());
        return;
      }
      nextToAcquire = from;
      restStatus = answer.status();
    } else {
      ready = new Window(from, answer);
      if ((flags & RequestDescriptor.FLAG_LEADING_RUN) != 0 && restStatus == null) {
        for (int i = 0; i < answer.count() && restStatus == null; i++) {
          restStatus = answer.blockStatus(i) == Status.MISS ? Status.MISS : null;
        }
      }
    }
    pump();
  }

  private void releaseLeases(IndexAnswer answer, int fromBlock) {
    long[] ids = new long[answer.count()];
    int count = 0;
    for (int i = fromBlock; i < ids.length; i++) {
      long id = answer.grant(i).id();
      if (id != 0) {
        ids[count++] = id;
      }
    }
    if (count > 0) {
      environment
          .gateway()
          .submitSilent(IndexRequest.ofIds(Verb.RELEASE, 0, Arrays.copyOf(ids, count)));
    }
  }

  // ---- copying out
  // ----------------------------------------------------------------------------------------------

  private void pump() {
    KeyBatch all = keys;
    if (all == null || draining) {
      return;
    }
    for (int turn = 0; !isOver(); turn++) {
      if (current == null) {
        current = ready;
        ready = null;
        acquire();
      }
      Window window = current;
      if (window == null && block < all.count() && (acquiring || restStatus == null)) {
        return; // its completion pumps again
      }
      if (block == all.count()) {
        respondEnd();
        return;
      }
      if (isFull()) {
        draining = true;
        onDrain(this::afterDrain);
        return;
      }
      if (turn == CHUNKS_PER_TURN) {
        draining = true;
        environment.gateway().later(this::afterDrain); // others have their turn
        return;
      }
      if (window == null) {
        Status status = restStatus == null ? Status.INTERNAL : restStatus;
        writeAbsent(status, TierId.NONE);
      } else {
        copy(window);
      }
    }
  }

  private void afterDrain() {
    draining = false;
    pump();
  }

  private void copy(Window window) {
    IndexAnswer answer = window.answer;
    int place = block - window.from;
    Status status = answer.blockStatus(place);
    if (status != Status.OK) {
      writeAbsent(status, answer.blockTier(place));
    } else if (restStatus == Status.CANCELLED) {
      writeAbsent(Status.CANCELLED, answer.blockTier(place));
    } else {
      copyChunk(answer, place);
    }
    if (current != null && block == window.to()) {
      current = null;
    }
  }

  private void copyChunk(IndexAnswer answer, int place) {
    Grant grant = answer.grant(place);
    CRC32C sum = crc;
    if (sum == null) {
      sum = new CRC32C();
      crc = sum;
    }
    int length = Math.min(environment.chunkBytes(), grant.length() - offset);
    boolean isLast = offset + length == grant.length();
    GetResponse.Builder head =
        GetResponse.newBuilder()
            .setBlock(block)
            .setTier(Wire.tier(answer.blockTier(place)))
            .setOffset(offset)
            .setCrc32C(grant.checksum());
    Buffer chunk;
    try {
      chunk =
          Wire.chunk(
              head.setLast(isLast).build(),
              environment.slabs().apply(grant.slab()),
              grant.offset() + offset,
              length,
              sum);
    } catch (IOException e) {
      throw new IllegalStateException("a message did not fit its own size", e);
    }
    // The copy counts only when the lease had not ended by the time it was done.
    if (answer.value() - System.nanoTime() <= 0) {
      writeAbsent(Status.STALE, answer.blockTier(place));
      return;
    }
    if (!isLast) {
      write(chunk);
      offset += length;
      progress();
      return;
    }
    if ((int) sum.getValue() != grant.checksum()) {
      drop(block);
      writeAbsent(Status.CORRUPT, answer.blockTier(place));
      return;
    }
    write(chunk);
    nextBlock();
  }

  /** Ends a block without (more of) its bytes. */
  private void writeAbsent(Status status, TierId tier) {
    write(
        Buffer.buffer(
            GetResponse.newBuilder()
                .setBlock(block)
                .setStatus(Wire.status(status))
                .setTier(Wire.tier(tier))
                .setOffset(offset)
                .setLast(true)
                .build()
                .toByteArray()));
    nextBlock();
  }

  private void nextBlock() {
    Window window = current;
    if (window != null) {
      long id = window.answer.grant(block - window.from).id();
      if (id != 0) {
        environment.gateway().submitSilent(IndexRequest.ofIds(Verb.RELEASE, 0, id));
      }
    }
    block++;
    offset = 0;
    crc = null;
    progress();
  }

  private void drop(int place) {
    KeyBatch all = keys;
    if (all != null) {
      environment
          .gateway()
          .submit(
              IndexRequest.ofKeys(
                  Verb.DELETE, all.only(place), 0, RequestDescriptor.PRIORITY_NORMAL, 0),
              answer -> {});
    }
  }

  // ---- ending
  // ---------------------------------------------------------------------------------------------------

  @Override
  void cancelByClient() {
    if (restStatus == null || restStatus == Status.MISS) {
      restStatus = Status.CANCELLED;
      environment.gateway().cancel(correlationId);
      pump();
    }
  }

  @Override
  boolean waitsForClient() {
    return draining || !isHalfClosed();
  }

  @Override
  void release() {
    environment.gateway().cancel(correlationId);
    Window window = current;
    if (window != null) {
      releaseLeases(window.answer, block - window.from);
      current = null;
    }
    Window next = ready;
    if (next != null) {
      releaseLeases(next.answer, 0);
      ready = null;
    }
  }
}
