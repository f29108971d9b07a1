package io.kvtier.protocol;

import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.zip.CRC32C;

/** Computes the lengths of records and of their parts, in bytes, and writes headers of requests. */
public final class Records {
  private Records() {}

  /** The length of a key in a body. */
  public static int keyStride(int keyBytes) {
    return aligned(keyBytes);
  }

  /** The length of an id in a body, with its checksum if it has one. */
  public static int idStride(int flags) {
    return (flags & RequestDescriptor.FLAG_CHECKSUMS) == 0 ? 8 : 16;
  }

  /** The importance that the flags of a RESERVE or OFFLOAD give to its blocks. */
  public static int importance(int flags) {
    int bits = (flags & RequestDescriptor.IMPORTANCE_MASK) >>> RequestDescriptor.IMPORTANCE_SHIFT;
    return bits ^ RequestDescriptor.IMPORTANCE_NORMAL;
  }

  /** The flags that stand for an importance. */
  public static int importanceFlags(int importance) {
    return (importance ^ RequestDescriptor.IMPORTANCE_NORMAL) << RequestDescriptor.IMPORTANCE_SHIFT;
  }

  /** Whether a body begins with block keys. */
  public static boolean hasKeys(RequestBody body) {
    return body == RequestBody.KEYS || body == RequestBody.KEYS_AND_BLOCKS;
  }

  /** The length of a request. */
  public static int request(Verb verb, int count, int keyBytes, int flags) {
    int body =
        switch (verb.body()) {
          case NONE -> 0;
          case KEYS -> keys(count, keyBytes, flags);
          case KEYS_AND_BLOCKS -> keys(count, keyBytes, flags) + aligned(4 * count);
          case IDS -> count * idStride(flags);
          case TEXT -> aligned(count);
        };
    int context =
        (flags & RequestDescriptor.FLAG_CONTEXT) == 0 ? 0 : RequestDescriptor.CONTEXT_BYTES;
    return RequestDescriptor.HEADER_BYTES + body + context;
  }

  private static int keys(int count, int keyBytes, int flags) {
    return (count + (flags & RequestDescriptor.FLAG_PARENT)) * keyStride(keyBytes);
  }

  /** The length of the result of a block. */
  public static int result(Verb verb) {
    return verb == Verb.ACQUIRE || verb == Verb.RESERVE
        ? CompletionDescriptor.LONG_RESULT_BYTES
        : CompletionDescriptor.SHORT_RESULT_BYTES;
  }

  /** The length of a completion with results. */
  public static int completion(Verb verb, int count) {
    return CompletionDescriptor.HEADER_BYTES + aligned(count * result(verb));
  }

  /** The length of a completion with a text. */
  public static int textCompletion(int textBytes) {
    return CompletionDescriptor.HEADER_BYTES + aligned(textBytes);
  }

  /** The offset of the annotation in an entry of ANNOTATE. */
  public static int annotationOffset(int keyBytes) {
    return AnnotationDescriptor.KEY_OFFSET + keyStride(keyBytes);
  }

  /** The length of an entry of ANNOTATE. */
  public static int annotationEntry(int keyBytes, int annotationBytes) {
    return annotationOffset(keyBytes) + aligned(annotationBytes);
  }

  /** Writes the header of a request: length, verb and flags, and zeros for the rest. */
  public static void begin(MemorySegment out, long at, int bytes, Verb verb, int flags) {
    for (int i = 0; i < RequestDescriptor.HEADER_BYTES; i += Long.BYTES) {
      Words.putLong(out, at + i, 0);
    }
    Words.putInt(out, at + RequestDescriptor.RECORD_BYTES_OFFSET, bytes);
    Words.putShort(out, at + RequestDescriptor.VERB_OFFSET, verb.code());
    Words.putShort(out, at + RequestDescriptor.FLAGS_OFFSET, flags);
  }

  /** Whether the reserved bytes in the header of a request are zero. */
  public static boolean isReservedZero(MemorySegment in, long at) {
    long spare = Words.getInt(in, at + RequestDescriptor.RESERVED_OFFSET);
    for (int i = RequestDescriptor.RESERVED_OFFSET + Integer.BYTES;
        i < RequestDescriptor.HEADER_BYTES;
        i += Long.BYTES) {
      spare |= Words.getLong(in, at + i);
    }
    return spare == 0;
  }

  /** The number by which a request names a node: the CRC32C of the node's name, or its address. */
  public static int numberOfNode(String node) {
    CRC32C crc = new CRC32C();
    crc.update(node.getBytes(StandardCharsets.UTF_8));
    return (int) crc.getValue();
  }

  private static int aligned(int bytes) {
    return (bytes + 7) & ~7;
  }
}
