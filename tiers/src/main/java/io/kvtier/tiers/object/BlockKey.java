package io.kvtier.tiers.object;

import io.kvtier.tiers.transfer.Transfer;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * The name of a block among all blocks: namespace, group and key.
 *
 * @param namespaceHigh the upper half of the namespace's fingerprint
 * @param key not changed any more
 */
@SuppressWarnings("ArrayRecordComponent") // compared by nobody
public record BlockKey(long namespaceHigh, long namespaceLow, int group, byte[] key) {
  /** The block of a transfer. */
  public static BlockKey of(Transfer transfer) {
    return of(
        transfer.namespaceHigh,
        transfer.namespaceLow,
        transfer.key,
        transfer.keyBytes,
        transfer.group);
  }

  /** Copies a key. */
  public static BlockKey of(
      long namespaceHigh, long namespaceLow, byte[] key, int keyBytes, int group) {
    return new BlockKey(namespaceHigh, namespaceLow, group, Arrays.copyOf(key, keyBytes));
  }

  /** The block in few bits. */
  public ObjectKey objectKey() {
    return ObjectKey.of(namespaceHigh, namespaceLow, key, key.length, group);
  }

  /** The name of the block's object. */
  public String ofObject() {
    return ObjectNames.ofBlock(namespaceHigh, namespaceLow, key, key.length, group);
  }

  /** Whether another block has the same namespace, group and length of keys. */
  public boolean goesWith(BlockKey other) {
    return namespaceHigh == other.namespaceHigh
        && namespaceLow == other.namespaceLow
        && group == other.group
        && key.length == other.key.length;
  }

  /** Appends the key to others. */
  public void putKey(ByteBuffer keys) {
    keys.put(key);
  }
}
