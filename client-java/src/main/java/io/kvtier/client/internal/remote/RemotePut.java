package io.kvtier.client.internal.remote;

import com.google.protobuf.UnsafeByteOperations;
import io.kvtier.client.internal.shared.Outcome;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.v1.BlockResult;
import io.kvtier.protocol.v1.PutHeader;
import io.kvtier.protocol.v1.PutRequest;
import io.kvtier.protocol.v1.PutResponse;
import io.kvtier.protocol.v1.StatusCode;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.buffer.Buffer;
import io.vertx.grpc.client.GrpcClientRequest;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/** Sends the blocks of one Put. Confined to the event loop. */
final class RemotePut {
  private final List<MemorySegment> sources;
  private final List<BlockResult> there;
  private final int chunkBytes;
  private final CRC32C crc = new CRC32C();
  private int block;
  private long offset;
  private @Nullable PutResponse answer;

  private RemotePut(List<MemorySegment> sources, List<BlockResult> there, int chunkBytes) {
    this.sources = sources;
    this.there = there;
    this.chunkBytes = chunkBytes;
  }

  /**
   * Sends blocks.
   *
   * @param there the answer of a lookup, or nothing: blocks that are there are not sent
   */
  static Future<RemotePut> of(
      RemoteChannel channel,
      io.kvtier.protocol.v1.Keys keys,
      List<MemorySegment> sources,
      List<byte[]> annotations,
      List<BlockResult> there,
      int chunkBytes,
      long deadlineNs) {
    RemotePut put = new RemotePut(sources, there, chunkBytes);
    boolean isAllThere = !there.isEmpty();
    for (int i = 0; i < sources.size(); i++) {
      isAllThere &= put.isThere(i);
    }
    if (isAllThere) {
      return Future.succeededFuture(put);
    }
    PutHeader.Builder header = PutHeader.newBuilder().setKeys(keys);
    annotations.forEach(
        annotation -> header.addAnnotations(UnsafeByteOperations.unsafeWrap(annotation)));
    Buffer first = BlockMessages.encoded(PutRequest.newBuilder().setHeader(header).build());
    return channel.transfer(BlockMessages.PUT, deadlineNs, request -> put.send(request, first));
  }

  private boolean isThere(int index) {
    return index < there.size() && there.get(index).getStatus() == StatusCode.STATUS_OK;
  }

  private Future<RemotePut> send(GrpcClientRequest<Buffer, PutResponse> request, Buffer first) {
    Promise<RemotePut> done = Promise.promise();
    request.exceptionHandler(done::tryFail);
    var _ = request.write(first);
    writeSome(request, done);
    request
        .response()
        .compose(RemoteChannel::only)
        .onComplete(
            message -> {
              answer = message;
              done.tryComplete(this);
            },
            done::tryFail);
    return done.future();
  }

  /** Writes chunks until the stream is full, or all are written. */
  private void writeSome(GrpcClientRequest<Buffer, PutResponse> request, Promise<RemotePut> done) {
    try {
      while (block < sources.size()) {
        if (isThere(block)) {
          block++;
          continue;
        }
        if (request.writeQueueFull()) {
          request.drainHandler(v -> {
            request.drainHandler(null);
            writeSome(request, done);
          });
          return;
        }
        var _ = request.write(nextChunk());
      }
      var _ = request.end();
    } catch (RuntimeException e) {
      // The caller's memory was closed meanwhile.
      done.tryFail(e);
      request.cancel();
    }
  }

  private Buffer nextChunk() {
    MemorySegment source = sources.get(block);
    int bytes = (int) Math.min(chunkBytes, source.byteSize() - offset);
    boolean isLast = offset + bytes == source.byteSize();
    Buffer chunk = BlockMessages.chunk(block, offset, source.asSlice(offset, bytes), crc, isLast);
    offset += bytes;
    if (isLast) {
      crc.reset();
      offset = 0;
      block++;
    }
    return chunk;
  }

  /** The outcome of the whole; OK if nothing was to be sent. */
  Status status() {
    PutResponse answered = answer;
    return answered == null ? Status.OK : Status.of(answered.getOutcome().getStatusValue());
  }

  /** Adds the outcome of each block. */
  void into(Outcome outcome, int from) {
    PutResponse answered = answer;
    if (answered == null) {
      for (int i = 0; i < sources.size(); i++) {
        outcome.set(from + i, Status.EXISTS, TierId.NONE);
      }
      return;
    }
    outcome.note(status(), answered.getOutcome().getText());
    boolean isWhole = answered.getBlocksCount() == sources.size();
    Status whole = status() == Status.OK ? Status.INTERNAL : status();
    for (int i = 0; i < sources.size(); i++) {
      Status one = isWhole ? Status.of(answered.getBlocks(i).getStatusValue()) : whole;
      outcome.set(from + i, isThere(i) && one == Status.MISS ? Status.EXISTS : one, TierId.NONE);
    }
  }
}
