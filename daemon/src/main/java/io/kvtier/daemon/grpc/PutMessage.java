package io.kvtier.daemon.grpc;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.WireFormat;
import io.kvtier.daemon.grpc.ReceivedMessage.Range;
import io.kvtier.protocol.v1.PutChunk;
import io.kvtier.protocol.v1.PutHeader;
import io.kvtier.protocol.v1.PutRequest;
import java.nio.ByteBuffer;
import org.jspecify.annotations.Nullable;

/**
 * A {@link PutRequest} whose block bytes stay where they came in. Reads what any encoder of
 * protocol buffers may write: fields in any order, unknown ones among them, the last of several
 * counts.
 */
final class PutMessage {
  private static final int VARINT_BYTES_MAX = 10;

  private final ReceivedMessage message;
  private int piece;
  private int place;

  /** Bytes read so far. */
  private int position;

  @Nullable PutHeader header;
  boolean isChunk;
  int block;
  long offset;
  Range data = Range.EMPTY;
  @Nullable Integer crc32c;

  private PutMessage(ReceivedMessage message) {
    this.message = message;
  }

  static PutMessage read(ReceivedMessage message) throws InvalidProtocolBufferException {
    PutMessage put = new PutMessage(message);
    put.readRequest();
    return put;
  }

  ReceivedMessage message() {
    return message;
  }

  private void readRequest() throws InvalidProtocolBufferException {
    while (position < message.length()) {
      int tag = (int) varint();
      if (tag == tag(PutRequest.HEADER_FIELD_NUMBER, WireFormat.WIRETYPE_LENGTH_DELIMITED)) {
        header = PutHeader.parseFrom(bytes(length(message.length())));
        isChunk = false;
      } else if (tag == tag(PutRequest.CHUNK_FIELD_NUMBER, WireFormat.WIRETYPE_LENGTH_DELIMITED)) {
        int length = length(message.length());
        readChunk(position + length);
        header = null;
        isChunk = true;
      } else {
        skipField(tag, message.length());
      }
    }
  }

  private void readChunk(int end) throws InvalidProtocolBufferException {
    while (position < end) {
      int tag = (int) varint();
      if (tag == tag(PutChunk.BLOCK_FIELD_NUMBER, WireFormat.WIRETYPE_VARINT)) {
        block = (int) varint();
      } else if (tag == tag(PutChunk.OFFSET_FIELD_NUMBER, WireFormat.WIRETYPE_VARINT)) {
        offset = varint();
      } else if (tag == tag(PutChunk.DATA_FIELD_NUMBER, WireFormat.WIRETYPE_LENGTH_DELIMITED)) {
        data = range(length(end));
      } else if (tag == tag(PutChunk.CRC32C_FIELD_NUMBER, WireFormat.WIRETYPE_FIXED32)) {
        crc32c = fixed32();
      } else {
        skipField(tag, end);
      }
    }
    if (position != end) {
      throw malformed();
    }
  }

  private static int tag(int field, int type) {
    return field << 3 | type;
  }

  private static InvalidProtocolBufferException malformed() {
    return new InvalidProtocolBufferException("malformed");
  }

  private byte next() throws InvalidProtocolBufferException {
    while (piece < message.pieces()) {
      ByteBuffer bytes = message.piece(piece);
      if (place < bytes.limit()) {
        position++;
        return bytes.get(place++);
      }
      piece++;
      place = 0;
    }
    throw malformed();
  }

  private long varint() throws InvalidProtocolBufferException {
    long value = 0;
    for (int i = 0; i < VARINT_BYTES_MAX; i++) {
      byte each = next();
      value |= (long) (each & 0x7f) << (7 * i);
      if (each >= 0) {
        return value;
      }
    }
    throw malformed();
  }

  private int fixed32() throws InvalidProtocolBufferException {
    int value = 0;
    for (int i = 0; i < Integer.BYTES; i++) {
      value |= (next() & 0xff) << (8 * i);
    }
    return value;
  }

  /** A length before its bytes, which end no later than what holds them. */
  private int length(int end) throws InvalidProtocolBufferException {
    long length = varint();
    if (length < 0 || length > end - position) {
      throw malformed();
    }
    return (int) length;
  }

  /** Where the next bytes are; they are skipped. */
  private Range range(int length) throws InvalidProtocolBufferException {
    if (length > 0 && place == message.piece(piece).limit()) {
      piece++;
      place = 0;
    }
    Range range = new Range(piece, place, length);
    skip(length);
    return range;
  }

  private ByteBuffer bytes(int length) throws InvalidProtocolBufferException {
    ByteBuffer bytes = ByteBuffer.allocate(length);
    while (bytes.hasRemaining()) {
      bytes.put(next());
    }
    return bytes.flip();
  }

  private void skip(int length) throws InvalidProtocolBufferException {
    int left = length;
    while (left > 0) {
      if (piece == message.pieces()) {
        throw malformed();
      }
      int here = Math.min(left, message.piece(piece).limit() - place);
      place += here;
      position += here;
      left -= here;
      if (left > 0) {
        piece++;
        place = 0;
      }
    }
  }

  private void skipField(int tag, int end) throws InvalidProtocolBufferException {
    if (tag >>> 3 == 0) {
      throw malformed();
    }
    switch (tag & 7) {
      case WireFormat.WIRETYPE_VARINT -> varint();
      case WireFormat.WIRETYPE_FIXED64 -> skip(Long.BYTES);
      case WireFormat.WIRETYPE_FIXED32 -> skip(Integer.BYTES);
      case WireFormat.WIRETYPE_LENGTH_DELIMITED -> skip(length(end));
      default -> throw malformed(); // groups: no encoder of proto3 writes them
    }
  }
}
