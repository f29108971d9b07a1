package io.kvtier.client.internal.remote;

import io.kvtier.client.internal.shared.Outcome;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.v1.BlockResult;
import io.kvtier.protocol.v1.KvtierGrpcClient;
import io.kvtier.protocol.v1.PutHeader;
import io.kvtier.protocol.v1.PutRequest;
import io.kvtier.protocol.v1.PutResponse;
import io.kvtier.protocol.v1.StatusCode;
import io.vertx.core.Future;
import io.vertx.core.buffer.Buffer;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.List;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/** Sends the blocks of one Put. Confined to the event loop. */
final class RemotePut {
  /** Small enough that a chunk stays in the processor's cache from its copy to its encryption. */
  private static final int CHUNK_BYTES_MAX = 256 << 10;

  private static final int UNSENT_BYTES_MAX = 2 * CHUNK_BYTES_MAX;

  private final List<MemorySegment> sources;
  private final List<BlockResult> there;
  private final int chunkBytes;
  private final CRC32C crc = new CRC32C();

  /** Arrays whose bytes have been sent. */
  private final ArrayDeque<byte[]> spare = new ArrayDeque<>();

  private int block;
  private long offset;
  private @Nullable PutResponse answer;

  private RemotePut(List<MemorySegment> sources, List<BlockResult> there, int chunkBytes) {
    this.sources = sources;
    this.there = there;
    this.chunkBytes = Math.min(chunkBytes, CHUNK_BYTES_MAX);
  }

  /**
   * Sends blocks.
   *
   * @param there the answer of a lookup, or nothing: blocks that are there are not sent
   */
  static Future<RemotePut> of(
      RemoteChannel channel,
      PutHeader header,
      List<MemorySegment> sources,
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
    Buffer first = RemoteCall.framed(PutRequest.newBuilder().setHeader(header).build());
    return channel.transfer(KvtierGrpcClient.Put, deadlineNs, call -> put.send(call, first));
  }

  private boolean isThere(int index) {
    return index < there.size() && there.get(index).getStatus() == StatusCode.STATUS_OK;
  }

  private Future<RemotePut> send(RemoteCall call, Buffer first) {
    Future<RemotePut> done =
        RemoteChannel.only(call, KvtierGrpcClient.Put)
            .map(message -> {
              answer = message;
              return this;
            });
    call.limitUnsent(UNSENT_BYTES_MAX);
    var _ = call.write(first);
    writeSome(call);
    return done;
  }

  /** Writes chunks until the stream is full, or all are written. */
  private void writeSome(RemoteCall call) {
    try {
      while (block < sources.size()) {
        if (isThere(block)) {
          block++;
          continue;
        }
        if (call.isFull()) {
          call.onDrain(() -> writeSome(call));
          return;
        }
        writeChunk(call);
      }
      call.end();
    } catch (RuntimeException e) {
      // The caller's memory was closed meanwhile.
      call.fail(e);
    }
  }

  private void writeChunk(RemoteCall call) {
    MemorySegment source = sources.get(block);
    int bytes = (int) Math.min(chunkBytes, source.byteSize() - offset);
    boolean isLast = offset + bytes == source.byteSize();
    byte[] used = spare.poll();
    byte[] array = used == null ? new byte[BlockMessages.OVERHEAD_BYTES_MAX + chunkBytes] : used;
    int length =
        BlockMessages.chunk(array, block, offset, source.asSlice(offset, bytes), crc, isLast);
    offset += bytes;
    if (isLast) {
      crc.reset();
      offset = 0;
      block++;
    }
    var _ = call.write(RemoteCall.view(array, length)).onSuccess(sent -> spare.add(array));
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
