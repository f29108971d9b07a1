package io.kvtier.daemon.grpc;

import com.google.protobuf.CodedOutputStream;
import io.kvtier.protocol.Printable;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.v1.BlockResult;
import io.kvtier.protocol.v1.GetResponse;
import io.kvtier.protocol.v1.Outcome;
import io.kvtier.protocol.v1.Priority;
import io.kvtier.protocol.v1.StatusCode;
import io.kvtier.protocol.v1.Tier;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

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
    return Outcome.newBuilder().setStatus(status(status)).setText(Printable.of(text)).build();
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
   * What comes before the bytes of a {@link GetResponse}, with the prefix of its message.
   *
   * @param head all fields but the bytes
   * @param length of the bytes
   */
  static byte[] chunkHead(GetResponse head, int length) {
    int tag = GetResponse.DATA_FIELD_NUMBER << 3 | LENGTH_DELIMITED;
    int headBytes =
        head.getSerializedSize()
            + CodedOutputStream.computeUInt32SizeNoTag(tag)
            + CodedOutputStream.computeUInt32SizeNoTag(length);
    int prefixBytes = GrpcStream.prefixBytes();
    byte[] framed = new byte[prefixBytes + headBytes];
    GrpcStream.putPrefix(framed, headBytes + length);
    CodedOutputStream out = CodedOutputStream.newInstance(framed, prefixBytes, headBytes);
    try {
      head.writeTo(out);
      out.writeUInt32NoTag(tag);
      out.writeUInt32NoTag(length);
    } catch (IOException e) {
      throw new IllegalStateException("a message did not fit its own size", e);
    }
    return framed;
  }
}
