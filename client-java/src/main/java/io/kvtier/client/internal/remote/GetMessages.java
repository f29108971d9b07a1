package io.kvtier.client.internal.remote;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.WireFormat;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.v1.GetResponse;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * Splits the answer to a Get into its messages. Bytes of blocks are handed on in the pieces in
 * which they came; the generated code reads the other fields. The fields that say where bytes
 * belong must come before the bytes: every encoder writes the fields in the order of their numbers.
 */
final class GetMessages implements RemoteCall.Receiver {
  /** Takes the messages. What it throws ends the call. */
  interface Taker {
    /** Bytes of a block follow. */
    void onPlace(GetResponse place, int bytes);

    /** The next of the bytes that were announced. */
    void onData(ByteBuffer data);

    /** A message has ended; it is without its bytes of blocks. */
    void onMessage(GetResponse message);
  }

  private enum State {
    TAG,
    VARINT,
    LENGTH,
    FIELD,
    DATA
  }

  /** Maximum size of a message without its bytes of blocks. */
  private static final int FIELDS_BYTES_MAX = 64 << 10;

  private static final int VARINT_BITS_MAX = 64;
  private static final int DATA_TAG =
      GetResponse.DATA_FIELD_NUMBER << 3 | WireFormat.WIRETYPE_LENGTH_DELIMITED;

  private final Taker taker;
  private final ByteBuffer prefix = ByteBuffer.allocate(RemoteCall.PREFIX_BYTES);
  private boolean isInMessage;

  /** Bytes of the message that have not come. */
  private int missing;

  private State state = State.TAG;
  private long varint;
  private int varintBits;
  private int tag;

  /** Bytes of the field that have not come. */
  private int fieldMissing;

  /** The message without its bytes of blocks. */
  private byte[] fields = new byte[64];

  private int fieldsBytes;

  GetMessages(Taker taker) {
    this.taker = taker;
  }

  @Override
  public void onBytes(ByteBuffer bytes) {
    while (bytes.hasRemaining()) {
      if (!isInMessage) {
        prefix.put(bytes.get());
        if (!prefix.hasRemaining()) {
          begin();
        }
      } else if (state == State.DATA) {
        ByteBuffer piece = slice(bytes);
        taker.onData(piece);
      } else if (state == State.FIELD) {
        add(slice(bytes));
      } else {
        missing--;
        onByte(bytes.get());
      }
      if (isInMessage && missing == 0) {
        end();
      }
    }
  }

  private void begin() {
    missing = prefix.getInt(1);
    if (prefix.get(0) != 0 || missing < 0 || missing > RemoteCall.MESSAGE_BYTES_MAX) {
      throw malformed();
    }
    prefix.clear();
    isInMessage = true;
    state = State.TAG;
    varint = 0;
    varintBits = 0;
    fieldsBytes = 0;
  }

  private void end() {
    if (state != State.TAG || varintBits > 0) {
      throw malformed();
    }
    isInMessage = false;
    taker.onMessage(parsed());
  }

  @Override
  public void onEnd() {
    if (isInMessage || prefix.position() > 0) {
      throw malformed();
    }
  }

  /** The part of the bytes that belongs to the field. */
  private ByteBuffer slice(ByteBuffer bytes) {
    int count = Math.min(fieldMissing, bytes.remaining());
    ByteBuffer slice = bytes.slice(bytes.position(), count);
    bytes.position(bytes.position() + count);
    missing -= count;
    fieldMissing -= count;
    if (fieldMissing == 0) {
      state = State.TAG;
    }
    return slice;
  }

  private void onByte(byte each) {
    varint |= (long) (each & 0x7f) << varintBits;
    varintBits += 7;
    boolean isWhole = each >= 0;
    if (!isWhole && varintBits >= VARINT_BITS_MAX) {
      throw malformed();
    }
    boolean isOfData = state == State.LENGTH && tag == DATA_TAG;
    if (!isOfData) {
      add(each);
    }
    if (!isWhole) {
      return;
    }
    long value = varint;
    int bytes = varintBits / 7;
    varint = 0;
    varintBits = 0;
    switch (state) {
      case TAG -> onTag((int) value, bytes);
      case LENGTH -> {
        if (value < 0 || value > missing) {
          throw malformed();
        }
        if (isOfData && value > 0) {
          taker.onPlace(parsed(), (int) value);
        }
        begin(isOfData ? State.DATA : State.FIELD, (int) value);
      }
      default -> state = State.TAG;
    }
  }

  private void onTag(int value, int bytes) {
    tag = value;
    if (value >>> 3 == 0) {
      throw malformed();
    }
    switch (value & 7) {
      case WireFormat.WIRETYPE_VARINT -> state = State.VARINT;
      case WireFormat.WIRETYPE_FIXED64 -> begin(State.FIELD, Long.BYTES);
      case WireFormat.WIRETYPE_FIXED32 -> begin(State.FIELD, Integer.BYTES);
      case WireFormat.WIRETYPE_LENGTH_DELIMITED -> {
        state = State.LENGTH;
        if (value == DATA_TAG) {
          fieldsBytes -= bytes;
        }
      }
      default -> throw malformed();
    }
  }

  private void begin(State next, int bytes) {
    if (bytes > missing) {
      throw malformed();
    }
    fieldMissing = bytes;
    state = bytes == 0 ? State.TAG : next;
  }

  private void add(byte each) {
    makeSpace(1);
    fields[fieldsBytes++] = each;
  }

  private void add(ByteBuffer bytes) {
    int count = bytes.remaining();
    makeSpace(count);
    bytes.get(fields, fieldsBytes, count);
    fieldsBytes += count;
  }

  private void makeSpace(int bytes) {
    if (bytes > FIELDS_BYTES_MAX - fieldsBytes) {
      throw malformed();
    }
    if (bytes > fields.length - fieldsBytes) {
      fields = Arrays.copyOf(fields, Math.max(2 * fields.length, fieldsBytes + bytes));
    }
  }

  private GetResponse parsed() {
    try {
      return GetResponse.parser().parseFrom(fields, 0, fieldsBytes);
    } catch (InvalidProtocolBufferException e) {
      throw malformed();
    }
  }

  private static RemoteChannel.Failure malformed() {
    return new RemoteChannel.Failure(
        Status.UNAVAILABLE, "the daemon sent bytes that are no message of a Get");
  }
}
