package io.kvtier.client;

import com.google.protobuf.UnsafeByteOperations;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.v1.BlockResult;
import io.kvtier.protocol.v1.KvtierGrpcClient;
import io.kvtier.protocol.v1.PutChunk;
import io.kvtier.protocol.v1.PutHeader;
import io.kvtier.protocol.v1.PutRequest;
import io.kvtier.protocol.v1.PutResponse;
import io.kvtier.protocol.v1.StatusCode;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.grpc.client.GrpcClientRequest;
import io.vertx.grpc.common.GrpcStatus;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.zip.CRC32C;

/** The blocks of one Put as they go. Confined to the event loop. */
final class RemotePut {
  private final List<MemorySegment> sources;
  private final List<BlockResult> there;
  private final int chunkBytes;
  private final CRC32C crc = new CRC32C();
  private int block;
  private long offset;
  private PutResponse answer = PutResponse.getDefaultInstance();

  private RemotePut(List<MemorySegment> sources, List<BlockResult> there, int chunkBytes) {
    this.sources = sources;
    this.there = there;
    this.chunkBytes = chunkBytes;
  }

  /**
   * Sends blocks.
   *
   * @param there what a lookup said of them, or nothing: those that are there are not sent
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
    PutRequest first = PutRequest.newBuilder().setHeader(header).build();
    return channel.transfer(KvtierGrpcClient.Put, deadlineNs, request -> put.send(request, first));
  }

  private boolean isThere(int index) {
    return index < there.size() && there.get(index).getStatus() == StatusCode.STATUS_OK;
  }

  private Future<RemotePut> send(
      GrpcClientRequest<PutRequest, PutResponse> request, PutRequest first) {
    Promise<Void> broken = Promise.promise();
    request.exceptionHandler(broken::tryFail);
    var _ = request.write(first);
    writeSome(request);
    Future<RemotePut> answered =
        request
            .response()
            .compose(response ->
                response
                    .last()
                    .compose(message -> {
                      GrpcStatus status = response.status();
                      if (message == null || (status != null && status != GrpcStatus.OK)) {
                        return Future.failedFuture(
                            RemoteChannel.failure(status, response.statusMessage()));
                      }
                      answer = message;
                      return Future.succeededFuture(this);
                    }));
    Promise<RemotePut> done = Promise.promise();
    answered.onComplete(done::tryComplete, done::tryFail);
    broken.future().onFailure(done::tryFail);
    return done.future();
  }

  /** Writes chunks until the stream is full, or all are written. */
  private void writeSome(GrpcClientRequest<PutRequest, PutResponse> request) {
    while (block < sources.size()) {
      if (isThere(block)) {
        block++;
        continue;
      }
      if (request.writeQueueFull()) {
        request.drainHandler(v -> {
          request.drainHandler(null);
          writeSome(request);
        });
        return;
      }
      var _ = request.write(nextChunk());
    }
    var _ = request.end();
  }

  private PutRequest nextChunk() {
    MemorySegment source = sources.get(block);
    int bytes = (int) Math.min(chunkBytes, source.byteSize() - offset);
    // Of the bytes that are sent: the caller's memory may change meanwhile.
    byte[] part = source.asSlice(offset, bytes).toArray(ValueLayout.JAVA_BYTE);
    crc.update(part);
    PutChunk.Builder chunk =
        PutChunk.newBuilder()
            .setBlock(block)
            .setOffset(offset)
            .setData(UnsafeByteOperations.unsafeWrap(part));
    offset += bytes;
    if (offset == source.byteSize()) {
      chunk.setCrc32C((int) crc.getValue());
      crc.reset();
      offset = 0;
      block++;
    }
    return PutRequest.newBuilder().setChunk(chunk).build();
  }

  /** What became of the whole of it. */
  Status status() {
    return Status.of(answer.getOutcome().getStatusValue());
  }

  /** Says what became of each block. */
  void into(Outcome outcome, int from) {
    boolean isSent = answer.getBlocksCount() > 0 || status() != Status.OK;
    if (isSent) {
      outcome.note(status(), answer.getOutcome().getText());
    }
    boolean isWhole = answer.getBlocksCount() == sources.size();
    for (int i = 0; i < sources.size(); i++) {
      Status one =
          !isSent
              ? Status.EXISTS
              : isWhole
                  ? Status.of(answer.getBlocks(i).getStatusValue())
                  : status() == Status.OK ? Status.INTERNAL : status();
      outcome.set(from + i, isThere(i) && one == Status.MISS ? Status.EXISTS : one, TierId.NONE);
    }
  }
}
