package io.kvtier.client;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;

/**
 * What the daemon's KV events tell of a block, and only its engine knows: the ids of its tokens,
 * and what else its hash was made of. {@link #annotation} is what to put with the block.
 */
public final class BlockTokens {
  // Of msgpack: a map of few fields, and the first byte of what is as long as the next says.
  private static final int FIXED_MAP = 0x80;
  private static final int BINARY_8 = 0xc4;
  private static final int INT_64 = 0xd3;
  private static final int TEXT_8 = 0xd9;

  private final int[] ids;
  private final byte @Nullable [] parent;
  private final @Nullable Long loraId;
  private final @Nullable String loraName;

  private BlockTokens(
      int[] ids, byte @Nullable [] parent, @Nullable Long loraId, @Nullable String loraName) {
    this.ids = ids;
    this.parent = parent;
    this.loraId = loraId;
    this.loraName = loraName;
  }

  /** The tokens of a sequence's first block. */
  public static BlockTokens of(int... ids) {
    return new BlockTokens(ids.clone(), null, null, null);
  }

  /** The same, behind another block. */
  public BlockTokens after(byte[] key) {
    return new BlockTokens(ids, key.clone(), loraId, loraName);
  }

  /** The same, of an adapter. */
  public BlockTokens withLora(long id, String name) {
    return new BlockTokens(ids, parent, id, name);
  }

  /** The block's annotation: a msgpack map. */
  public byte[] annotation() {
    ByteBuffer words =
        ByteBuffer.allocate(ids.length * Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    words.asIntBuffer().put(ids);
    ByteArrayOutputStream out = new ByteArrayOutputStream(words.capacity() + 128);
    out.write(FIXED_MAP | 1 + (parent == null ? 0 : 1) + (loraName == null ? 0 : 2));
    text(out, "token_ids");
    binary(out, words.array());
    if (parent != null) {
      text(out, "parent");
      binary(out, parent);
    }
    if (loraName != null && loraId != null) {
      text(out, "lora_id");
      out.write(INT_64);
      out.writeBytes(ByteBuffer.allocate(Long.BYTES).putLong(loraId).array());
      text(out, "lora_name");
      text(out, loraName);
    }
    return out.toByteArray();
  }

  private static void text(ByteArrayOutputStream out, String text) {
    length(out, TEXT_8, text.getBytes(StandardCharsets.UTF_8));
  }

  private static void binary(ByteArrayOutputStream out, byte[] bytes) {
    length(out, BINARY_8, bytes);
  }

  /** Bytes behind their length, in one byte or in two: an annotation has no room for more. */
  private static void length(ByteArrayOutputStream out, int code, byte[] bytes) {
    boolean isShort = bytes.length <= 0xff;
    out.write(isShort ? code : code + 1);
    if (!isShort) {
      out.write(bytes.length >>> Byte.SIZE);
    }
    out.write(bytes.length);
    out.writeBytes(bytes);
  }
}
