package io.kvtier.client.internal.remote;

import com.google.protobuf.ByteString;
import com.google.protobuf.CodedInputStream;
import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.UnsafeByteOperations;
import com.google.protobuf.WireFormat;
import io.kvtier.protocol.v1.GetRequest;
import io.kvtier.protocol.v1.GetResponse;
import io.kvtier.protocol.v1.KvtierGrpcClient;
import io.kvtier.protocol.v1.PutChunk;
import io.kvtier.protocol.v1.PutRequest;
import io.kvtier.protocol.v1.PutResponse;
import io.netty.buffer.Unpooled;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.internal.buffer.BufferInternal;
import io.vertx.grpc.common.CodecException;
import io.vertx.grpc.common.GrpcMessage;
import io.vertx.grpc.common.GrpcMessageDecoder;
import io.vertx.grpc.common.GrpcMessageEncoder;
import io.vertx.grpc.common.ServiceMethod;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.zip.CRC32C;

/**
 * The messages of gRPC that carry the bytes of a block. The generated code would copy these bytes
 * twice more, each way.
 */
final class BlockMessages {
  /** Put, of messages that {@link #chunk} and {@link #encoded} make. */
  static final ServiceMethod<PutResponse, Buffer> PUT =
      ServiceMethod.client(
          KvtierGrpcClient.Put.serviceName(),
          KvtierGrpcClient.Put.methodName(),
          GrpcMessageEncoder.IDENTITY,
          KvtierGrpcClient.Put.decoder());

  /** Get, of messages whose data is a view of the bytes that came. */
  static final ServiceMethod<GetResponse, GetRequest> GET =
      ServiceMethod.client(
          KvtierGrpcClient.Get.serviceName(),
          KvtierGrpcClient.Get.methodName(),
          KvtierGrpcClient.Get.encoder(),
          new ViewDecoder());

  private static final int CRC_BYTES = 1 + Integer.BYTES;

  private BlockMessages() {}

  /** A message without the bytes of a block. */
  static Buffer encoded(PutRequest message) {
    return wrapped(message.toByteArray());
  }

  /**
   * A {@link PutRequest} with a copy of bytes of a block. The checksum covers the copy: the
   * caller's memory may change meanwhile.
   *
   * @param crc of the block's bytes before these; then of these, too
   * @param isLast whether the block ends here; the message then has its checksum
   */
  static Buffer chunk(int block, long offset, MemorySegment data, CRC32C crc, boolean isLast) {
    int bytes = (int) data.byteSize();
    PutChunk fields = PutChunk.newBuilder().setBlock(block).setOffset(offset).build();
    int length =
        fields.getSerializedSize()
            + CodedOutputStream.computeTagSize(PutChunk.DATA_FIELD_NUMBER)
            + CodedOutputStream.computeUInt32SizeNoTag(bytes)
            + bytes
            + (isLast ? CRC_BYTES : 0);
    byte[] message =
        new byte
            [CodedOutputStream.computeTagSize(PutRequest.CHUNK_FIELD_NUMBER)
                + CodedOutputStream.computeUInt32SizeNoTag(length)
                + length];
    try {
      CodedOutputStream head = CodedOutputStream.newInstance(message);
      head.writeTag(PutRequest.CHUNK_FIELD_NUMBER, WireFormat.WIRETYPE_LENGTH_DELIMITED);
      head.writeUInt32NoTag(length);
      fields.writeTo(head);
      head.writeTag(PutChunk.DATA_FIELD_NUMBER, WireFormat.WIRETYPE_LENGTH_DELIMITED);
      head.writeUInt32NoTag(bytes);
      int at = head.getTotalBytesWritten();
      MemorySegment.copy(data, ValueLayout.JAVA_BYTE, 0, message, at, bytes);
      crc.update(message, at, bytes);
      if (isLast) {
        CodedOutputStream.newInstance(message, at + bytes, CRC_BYTES)
            .writeFixed32(PutChunk.CRC32C_FIELD_NUMBER, (int) crc.getValue());
      }
    } catch (IOException e) {
      throw new IllegalStateException("a message did not fit its own size", e);
    }
    return wrapped(message);
  }

  private static Buffer wrapped(byte[] message) {
    return BufferInternal.buffer(Unpooled.wrappedBuffer(message));
  }

  private static final class ViewDecoder implements GrpcMessageDecoder<GetResponse> {
    @Override
    public GetResponse decode(GrpcMessage message) {
      // These bytes are on the heap, and nobody writes them again.
      ByteString bytes =
          UnsafeByteOperations.unsafeWrap(
              ((BufferInternal) message.payload()).getByteBuf().nioBuffer());
      CodedInputStream in = bytes.newCodedInput();
      in.enableAliasing(true);
      try {
        GetResponse response = GetResponse.parseFrom(in);
        in.checkLastTagWas(0);
        return response;
      } catch (IOException e) {
        throw new CodecException(e);
      }
    }

    @Override
    public boolean accepts(io.vertx.grpc.common.WireFormat format) {
      return KvtierGrpcClient.Get.decoder().accepts(format);
    }
  }
}
