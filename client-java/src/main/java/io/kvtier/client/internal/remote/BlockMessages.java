package io.kvtier.client.internal.remote;

import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.WireFormat;
import io.kvtier.protocol.v1.PutChunk;
import io.kvtier.protocol.v1.PutRequest;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.zip.CRC32C;

/** The messages that carry the bytes of a block to the daemon. */
final class BlockMessages {
  /** Maximum size of a message and its prefix, without the bytes of the block. */
  static final int OVERHEAD_BYTES_MAX = 64;

  private static final int CRC_BYTES = 1 + Integer.BYTES;

  private BlockMessages() {}

  /**
   * Writes a {@link PutRequest} with a copy of bytes of a block, after its prefix. The checksum
   * covers the copy: the caller's memory may change meanwhile. The generated code would copy the
   * bytes twice more.
   *
   * @param out the array that the message is written to, from its begin
   * @param crc of the block's bytes before these; then of these, too
   * @param isLast whether the block ends here; the message then has its checksum
   * @return the size of prefix and message
   */
  static int chunk(
      byte[] out, int block, long offset, MemorySegment data, CRC32C crc, boolean isLast) {
    int bytes = (int) data.byteSize();
    PutChunk fields = PutChunk.newBuilder().setBlock(block).setOffset(offset).build();
    int length =
        fields.getSerializedSize()
            + CodedOutputStream.computeTagSize(PutChunk.DATA_FIELD_NUMBER)
            + CodedOutputStream.computeUInt32SizeNoTag(bytes)
            + bytes
            + (isLast ? CRC_BYTES : 0);
    int messageBytes =
        CodedOutputStream.computeTagSize(PutRequest.CHUNK_FIELD_NUMBER)
            + CodedOutputStream.computeUInt32SizeNoTag(length)
            + length;
    RemoteCall.putPrefix(out, messageBytes);
    try {
      CodedOutputStream head =
          CodedOutputStream.newInstance(out, RemoteCall.PREFIX_BYTES, messageBytes);
      head.writeTag(PutRequest.CHUNK_FIELD_NUMBER, WireFormat.WIRETYPE_LENGTH_DELIMITED);
      head.writeUInt32NoTag(length);
      fields.writeTo(head);
      head.writeTag(PutChunk.DATA_FIELD_NUMBER, WireFormat.WIRETYPE_LENGTH_DELIMITED);
      head.writeUInt32NoTag(bytes);
      int at = RemoteCall.PREFIX_BYTES + head.getTotalBytesWritten();
      MemorySegment.copy(data, ValueLayout.JAVA_BYTE, 0, out, at, bytes);
      crc.update(out, at, bytes);
      if (isLast) {
        CodedOutputStream.newInstance(out, at + bytes, CRC_BYTES)
            .writeFixed32(PutChunk.CRC32C_FIELD_NUMBER, (int) crc.getValue());
      }
    } catch (IOException e) {
      throw new IllegalStateException("a message did not fit its own size", e);
    }
    return RemoteCall.PREFIX_BYTES + messageBytes;
  }
}
