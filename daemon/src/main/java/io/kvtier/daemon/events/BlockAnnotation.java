package io.kvtier.daemon.events;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.jspecify.annotations.Nullable;
import org.msgpack.core.MessagePack;
import org.msgpack.core.MessagePackException;
import org.msgpack.core.MessageUnpacker;
import org.msgpack.value.Value;

/**
 * What an engine said of a block for events: a msgpack map in the block's annotation. Names that
 * are not known here are skipped.
 */
final class BlockAnnotation {
  /** The ids of the block's tokens. */
  final int[] tokens;

  /** The key of the block before it; null for a sequence's first. */
  final byte @Nullable [] parent;

  final @Nullable Long loraId;
  final @Nullable String loraName;

  /** What else the block's hash was made of, an array of anything; null for nothing. */
  final @Nullable Value extraKeys;

  private BlockAnnotation(
      int[] tokens,
      byte @Nullable [] parent,
      @Nullable Long loraId,
      @Nullable String loraName,
      @Nullable Value extraKeys) {
    this.tokens = tokens;
    this.parent = parent;
    this.loraId = loraId;
    this.loraName = loraName;
    this.extraKeys = extraKeys;
  }

  /** Reads an annotation; null where it is none of this kind. */
  static @Nullable BlockAnnotation read(byte[] bytes, int count) {
    int[] tokens = {};
    byte[] parent = null;
    Long loraId = null;
    String loraName = null;
    Value extraKeys = null;
    try (MessageUnpacker unpacker = MessagePack.newDefaultUnpacker(bytes, 0, count)) {
      int fields = unpacker.unpackMapHeader();
      for (int i = 0; i < fields; i++) {
        String name = unpacker.unpackString();
        if (unpacker.tryUnpackNil()) {
          continue;
        }
        switch (name) {
          case "token_ids" -> tokens = tokens(unpacker);
          case "parent" -> parent = unpacker.readPayload(unpacker.unpackBinaryHeader());
          case "lora_id" -> loraId = unpacker.unpackLong();
          case "lora_name" -> loraName = unpacker.unpackString();
          case "extra_keys" -> extraKeys = unpacker.unpackValue();
          default -> unpacker.skipValue();
        }
      }
    } catch (IOException | MessagePackException e) {
      return null;
    }
    return tokens.length == 0
        ? null
        : new BlockAnnotation(tokens, parent, loraId, loraName, extraKeys);
  }

  /** Little-endian words of 4 bytes in a binary. */
  private static int[] tokens(MessageUnpacker unpacker) throws IOException {
    byte[] bytes = unpacker.readPayload(unpacker.unpackBinaryHeader());
    int[] tokens = new int[bytes.length / Integer.BYTES];
    ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asIntBuffer().get(tokens);
    return tokens;
  }
}
