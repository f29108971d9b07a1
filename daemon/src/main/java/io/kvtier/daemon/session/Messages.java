package io.kvtier.daemon.session;

import io.kvtier.protocol.HandshakeDescriptor;
import io.kvtier.protocol.Printable;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.host.SlabStore;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Encodes and decodes the messages of the sessions' socket. */
final class Messages {
  private Messages() {}

  /** Whether a message is a client's hello. */
  static boolean isHello(byte[] bytes) {
    return bytes.length >= HandshakeDescriptor.HELLO_NAME_OFFSET
        && Words.getLong(aligned(bytes), 0) == HandshakeDescriptor.HELLO_MAGIC;
  }

  /** Whether a message asks for a slab. */
  static boolean isMapping(byte[] bytes) {
    return isQuestion(bytes, HandshakeDescriptor.MAP_SLAB_MAGIC);
  }

  /** Whether a message passes memory. */
  static boolean isPassing(byte[] bytes) {
    return isQuestion(bytes, HandshakeDescriptor.PASS_MEMORY_MAGIC);
  }

  private static boolean isQuestion(byte[] bytes, long magic) {
    return bytes.length == HandshakeDescriptor.QUESTION_BYTES
        && Words.getLong(aligned(bytes), 0) == magic;
  }

  /** The answer to a hello: a welcome, or a refusal with its reason. */
  static byte[] welcome(Status status, long sessionId, SlabStore slabs, String text) {
    byte[] utf8 = Printable.of(text).getBytes(StandardCharsets.UTF_8);
    byte[] bytes = new byte[HandshakeDescriptor.WELCOME_TEXT_OFFSET + utf8.length];
    MemorySegment out = aligned(bytes);
    Words.putLong(out, 0, HandshakeDescriptor.WELCOME_MAGIC);
    Words.putInt(out, HandshakeDescriptor.WELCOME_VERSION_OFFSET, Protocol.VERSION);
    Words.putShort(out, HandshakeDescriptor.WELCOME_STATUS_OFFSET, status.code());
    Words.putShort(out, HandshakeDescriptor.WELCOME_TEXT_BYTES_OFFSET, utf8.length);
    Words.putLong(out, HandshakeDescriptor.WELCOME_SESSION_ID_OFFSET, sessionId);
    Words.putLong(out, HandshakeDescriptor.WELCOME_SLAB_BYTES_OFFSET, slabs.slabBytes());
    Words.putInt(out, HandshakeDescriptor.WELCOME_SLAB_COUNT_OFFSET, slabs.slabs());
    byte[] result = toBytes(out);
    System.arraycopy(utf8, 0, result, HandshakeDescriptor.WELCOME_TEXT_OFFSET, utf8.length);
    return Arrays.copyOf(result, bytes.length);
  }

  /** The answer to a question: the question's magic and number, with a status. */
  static byte[] answer(byte[] question, Status status) {
    MemorySegment out = aligned(question);
    Words.putInt(out, HandshakeDescriptor.ANSWER_STATUS_OFFSET, 0);
    Words.putShort(out, HandshakeDescriptor.ANSWER_STATUS_OFFSET, status.code());
    return Arrays.copyOf(toBytes(out), HandshakeDescriptor.ANSWER_BYTES);
  }

  /** A copy of a message in an array of longs: byte arrays are not aligned for longs. */
  static MemorySegment aligned(byte[] bytes) {
    MemorySegment segment = MemorySegment.ofArray(new long[(bytes.length + 7) / 8 + 3]);
    MemorySegment.copy(MemorySegment.ofArray(bytes), 0, segment, 0, bytes.length);
    return segment;
  }

  private static byte[] toBytes(MemorySegment segment) {
    byte[] bytes = new byte[(int) segment.byteSize()];
    MemorySegment.copy(segment, 0, MemorySegment.ofArray(bytes), 0, bytes.length);
    return bytes;
  }
}
