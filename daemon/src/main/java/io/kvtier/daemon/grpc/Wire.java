package io.kvtier.daemon.grpc;

import com.google.protobuf.CodedOutputStream;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.v1.BlockResult;
import io.kvtier.protocol.v1.GetResponse;
import io.kvtier.protocol.v1.Outcome;
import io.kvtier.protocol.v1.Priority;
import io.kvtier.protocol.v1.StatusCode;
import io.kvtier.protocol.v1.Tier;
import io.vertx.core.buffer.Buffer;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/** Between the messages of gRPC and the types of the local protocol. */
final class Wire {
  private static final int LENGTH_DELIMITED = 2;

  private Wire() {}

  static StatusCode status(Status status) {
    StatusCode code = StatusCode.forNumber(status.code());
    return code == null ? StatusCode.STATUS_INTERNAL : code;
  }

  static Tier tier(TierId tier) {
    Tier wire = Tier.forNumber(tier.code());
    return wire == null ? Tier.TIER_NONE : wire;
  }

  static int priority(Priority priority) {
    return switch (priority) {
      case PRIORITY_HIGH -> RequestDescriptor.PRIORITY_HIGH;
      case PRIORITY_LOW -> RequestDescriptor.PRIORITY_LOW;
      case PRIORITY_NORMAL, UNRECOGNIZED -> RequestDescriptor.PRIORITY_NORMAL;
    };
  }

  static Outcome outcome(Status status, String text) {
    return Outcome.newBuilder().setStatus(status(status)).setText(text).build();
  }

  static Outcome outcome(IndexAnswer answer) {
    return outcome(answer.status(), answer.text());
  }

  static Outcome ok() {
    return Outcome.getDefaultInstance();
  }

  static BlockResult block(Status status, TierId tier) {
    return BlockResult.newBuilder().setStatus(status(status)).setTier(tier(tier)).build();
  }

  static List<BlockResult> blocks(IndexAnswer answer) {
    List<BlockResult> blocks = new ArrayList<>(answer.count());
    for (int i = 0; i < answer.count(); i++) {
      blocks.add(block(answer.blockStatus(i), answer.blockTier(i)));
    }
    return blocks;
  }

  /**
   * A {@link GetResponse} with bytes of a slot, copied once.
   *
   * @param head all fields but the bytes
   * @param crc takes the copied bytes in
   */
  static Buffer chunk(
      GetResponse head, MemorySegment slab, long offset, int length, @Nullable CRC32C crc)
      throws IOException {
    int tag = GetResponse.DATA_FIELD_NUMBER << 3 | LENGTH_DELIMITED;
    int before =
        head.getSerializedSize()
            + CodedOutputStream.computeUInt32SizeNoTag(tag)
            + CodedOutputStream.computeUInt32SizeNoTag(length);
    byte[] message = new byte[before + length];
    CodedOutputStream out = CodedOutputStream.newInstance(message, 0, before);
    head.writeTo(out);
    out.writeUInt32NoTag(tag);
    out.writeUInt32NoTag(length);
    MemorySegment.copy(slab, offset, MemorySegment.ofArray(message), before, length);
    if (crc != null) {
      crc.update(message, before, length);
    }
    return Buffer.buffer(message);
  }
}
