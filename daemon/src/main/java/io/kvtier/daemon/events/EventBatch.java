package io.kvtier.daemon.events;

import io.kvtier.daemon.config.KvtierdConfig.EventForm;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigInteger;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;
import org.msgpack.core.MessageBufferPacker;
import org.msgpack.core.MessagePack;
import org.msgpack.core.MessagePacker;

/**
 * A batch of events that is being written, in one of the forms of vLLM's publisher: {@code
 * BlockStored} and {@code BlockRemoved}, as msgpack. What is removed one after the other from one
 * tier becomes one event. For one thread.
 */
final class EventBatch {
  private static final int HASH_BYTES = 8;

  private final EventForm form;
  private final boolean isBytes;
  private final MessageBufferPacker events = MessagePack.newDefaultBufferPacker();
  private final MessageBufferPacker hashes = MessagePack.newDefaultBufferPacker();
  private int count;
  private int removedCount;
  private String removedMedium = "";
  private int removedGroup;

  /**
   * An empty batch.
   *
   * @param isBytes whether block hashes are bytes, and not 64-bit integers
   */
  EventBatch(EventForm form, boolean isBytes) {
    this.form = form;
    this.isBytes = isBytes;
  }

  boolean isEmpty() {
    return count == 0 && removedCount == 0;
  }

  /** How many events there are. */
  int count() {
    return count + (removedCount > 0 ? 1 : 0);
  }

  /** About how many bytes the batch has so far. */
  long bytes() {
    return events.getTotalWrittenBytes() + hashes.getTotalWrittenBytes();
  }

  /** A block is in a tier. */
  void stored(byte[] key, int keyBytes, int group, BlockAnnotation what, String medium) {
    try {
      endRemoved();
      boolean hasExtra = what.extraKeys != null;
      if (form == EventForm.POSITIONAL) {
        events.packArrayHeader(8 + (group > 0 ? 2 : hasExtra ? 1 : 0));
        events.packString("BlockStored");
      } else {
        events.packMapHeader(8 + (hasExtra ? 1 : 0) + (group > 0 ? 1 : 0));
        events.packString("type").packString("BlockStored");
      }
      name("block_hashes").packArrayHeader(1);
      packHash(events, key, keyBytes);
      byte[] parent = what.parent;
      name("parent_block_hash");
      if (parent == null) {
        events.packNil();
      } else {
        packHash(events, parent, parent.length);
      }
      name("token_ids").packArrayHeader(what.tokens.length);
      for (int token : what.tokens) {
        events.packLong(Integer.toUnsignedLong(token));
      }
      name("block_size").packInt(what.tokens.length);
      name("lora_id");
      packLong(what.loraId);
      name("medium").packString(medium);
      name("lora_name");
      packString(what.loraName);
      if (hasExtra || (form == EventForm.POSITIONAL && group > 0)) {
        name("extra_keys");
        packExtraKeys(what);
      }
      if (group > 0) {
        name("group_idx").packInt(group);
      }
      count++;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** A block is no longer in a tier. */
  void removed(byte[] key, int keyBytes, int group, String medium) {
    try {
      if (removedCount > 0 && (group != removedGroup || !medium.equals(removedMedium))) {
        endRemoved();
      }
      removedGroup = group;
      removedMedium = medium;
      removedCount++;
      packHash(hashes, key, keyBytes);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private void endRemoved() throws IOException {
    if (removedCount == 0) {
      return;
    }
    boolean hasGroup = removedGroup > 0;
    if (form == EventForm.POSITIONAL) {
      events.packArrayHeader(3 + (hasGroup ? 1 : 0)).packString("BlockRemoved");
    } else {
      events.packMapHeader(3 + (hasGroup ? 1 : 0)).packString("type").packString("BlockRemoved");
    }
    name("block_hashes").packArrayHeader(removedCount).writePayload(hashes.toByteArray());
    name("medium").packString(removedMedium);
    if (hasGroup) {
      name("group_idx").packInt(removedGroup);
    }
    hashes.clear();
    removedCount = 0;
    count++;
  }

  private MessagePacker name(String name) throws IOException {
    return form == EventForm.POSITIONAL ? events : events.packString(name);
  }

  private void packLong(@Nullable Long value) throws IOException {
    if (value == null) {
      events.packNil();
    } else {
      events.packLong(value);
    }
  }

  private void packString(@Nullable String value) throws IOException {
    if (value == null) {
      events.packNil();
    } else {
      events.packString(value);
    }
  }

  /** One entry a block, which is an array of anything. */
  private void packExtraKeys(BlockAnnotation what) throws IOException {
    if (what.extraKeys == null) {
      events.packNil();
    } else {
      events.packArrayHeader(1).packValue(what.extraKeys);
    }
  }

  private void packHash(MessagePacker to, byte[] key, int keyBytes) throws IOException {
    if (isBytes) {
      to.packBinaryHeader(keyBytes).writePayload(key, 0, keyBytes);
      return;
    }
    long hash = 0;
    for (int i = Math.max(0, keyBytes - HASH_BYTES); i < keyBytes; i++) {
      hash = hash << Byte.SIZE | Byte.toUnsignedLong(key[i]);
    }
    if (hash >= 0) {
      to.packLong(hash);
    } else {
      to.packBigInteger(new BigInteger(Long.toUnsignedString(hash)));
    }
  }

  /**
   * Ends the batch, and begins the next one.
   *
   * @param timeS when, in seconds since 1970
   * @return all but the rank, which {@link #tail} brings
   */
  byte[] end(double timeS) {
    try (MessageBufferPacker batch = MessagePack.newDefaultBufferPacker()) {
      endRemoved();
      if (form == EventForm.NAMED) {
        batch.packMapHeader(3).packString("ts").packDouble(timeS).packString("events");
      } else {
        batch.packArrayHeader(3).packDouble(timeS);
      }
      batch.packArrayHeader(count).writePayload(events.toByteArray());
      return batch.toByteArray();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } finally {
      events.clear();
      count = 0;
    }
  }

  /** Forgets what was written. */
  void drop() {
    events.clear();
    hashes.clear();
    count = 0;
    removedCount = 0;
  }

  /** What a batch of a rank ends with. */
  static byte[] tail(EventForm form, int rank) {
    try (MessageBufferPacker tail = MessagePack.newDefaultBufferPacker()) {
      if (form == EventForm.NAMED) {
        tail.packString("data_parallel_rank");
      }
      tail.packInt(rank);
      return tail.toByteArray();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** A batch and its tail. */
  static byte[] payload(byte[] batch, byte[] tail) {
    byte[] payload = Arrays.copyOf(batch, batch.length + tail.length);
    System.arraycopy(tail, 0, payload, batch.length, tail.length);
    return payload;
  }
}
