package io.kvtier.daemon.events;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.KvtierdConfig.EventForm;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.msgpack.core.MessageBufferPacker;
import org.msgpack.core.MessagePack;

/** Batches byte for byte, as {@code golden/events.txt} has them. */
class EventBatchTest {
  private static byte[] key(int first) {
    byte[] key = new byte[32];
    for (int i = 0; i < key.length; i++) {
      key[i] = (byte) (first + i);
    }
    return key;
  }

  private static byte[] words(int... tokens) {
    byte[] bytes = new byte[4 * tokens.length];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) (tokens[i / 4] >>> (8 * (i % 4)));
    }
    return bytes;
  }

  private static BlockAnnotation read(MessageBufferPacker packed) {
    byte[] bytes = packed.toByteArray();
    BlockAnnotation read = BlockAnnotation.read(bytes, bytes.length);
    assertNotNull(read);
    return read;
  }

  private static BlockAnnotation first() throws IOException {
    try (MessageBufferPacker out = MessagePack.newDefaultBufferPacker()) {
      byte[] tokens = words(1, 2, 300, 70000);
      out.packMapHeader(2);
      out.packString("token_ids").packBinaryHeader(tokens.length).writePayload(tokens);
      out.packString("of a later version").packArrayHeader(1).packInt(7);
      return read(out);
    }
  }

  private static BlockAnnotation second() throws IOException {
    try (MessageBufferPacker out = MessagePack.newDefaultBufferPacker()) {
      byte[] tokens = words(5, 6, 7, 8);
      out.packMapHeader(5);
      out.packString("token_ids").packBinaryHeader(tokens.length).writePayload(tokens);
      out.packString("parent").packBinaryHeader(32).writePayload(key(1));
      out.packString("lora_id").packInt(3).packString("lora_name").packString("ada");
      out.packString("extra_keys").packArrayHeader(2).packString("x").packInt(7);
      return read(out);
    }
  }

  private static byte[] batch(EventForm form, boolean isBytes) throws IOException {
    EventBatch batch = new EventBatch(form, isBytes);
    batch.stored(key(1), 32, 0, first(), "CPU");
    batch.stored(key(200), 32, 0, second(), "DISK");
    batch.removed(key(1), 32, 0, "CPU");
    batch.removed(key(200), 32, 0, "CPU");
    assertEquals(3, batch.count());
    byte[] bytes = batch.end(1700000000.5);
    assertTrue(batch.isEmpty());
    return EventBatch.payload(bytes, EventBatch.tail(form, 1));
  }

  @Test
  void batch_eachForm_hasTheGoldenBytes() throws IOException {
    List<String> seen = new ArrayList<>();
    try (InputStream in = EventBatchTest.class.getResourceAsStream("/golden/events.txt")) {
      assertNotNull(in);
      String text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
      for (String line : text.lines().filter(one -> !one.startsWith("#")).toList()) {
        String[] words = line.split(" ", -1);
        EventForm form = EventForm.valueOf(words[0].toUpperCase(Locale.ROOT));
        byte[] bytes = batch(form, words[1].equals("bytes"));
        assertEquals(words[2], HexFormat.of().formatHex(bytes), line.substring(0, 20));
        seen.add(words[0] + ' ' + words[1]);
      }
    }
    assertEquals(List.of("map integer", "positional integer", "named integer", "map bytes"), seen);
  }

  @Test
  void batch_groups_standWhereConsumersLookForThem() throws IOException {
    EventBatch batch = new EventBatch(EventForm.POSITIONAL, false);
    batch.stored(new byte[] {9}, 1, 2, first(), "cpu");
    batch.removed(new byte[] {9}, 1, 2, "cpu");
    String hex = HexFormat.of().formatHex(batch.end(0));
    // The extra keys' place is kept, then comes the group.
    assertTrue(hex.contains("a3637075" + "c0" + "c0" + "02"), hex);
    assertTrue(hex.endsWith("9109" + "a3637075" + "02"), hex);
  }

  @Test
  void batch_removedOfTwoTiers_areTwoEvents() {
    EventBatch batch = new EventBatch(EventForm.MAP, false);
    batch.removed(key(1), 32, 0, "CPU");
    batch.removed(key(1), 32, 0, "DISK");
    batch.removed(key(2), 32, 0, "DISK");
    batch.removed(key(3), 32, 1, "DISK");
    assertEquals(3, batch.count());
  }

  @Test
  void annotation_notOfThisKind_isNone() {
    for (String hex : List.of("", "ff", "80", "a161", "81a161", "82a9746f6b656e5f696473c40101")) {
      byte[] bytes = HexFormat.of().parseHex(hex);
      assertNull(BlockAnnotation.read(bytes, bytes.length), hex);
    }
  }
}
