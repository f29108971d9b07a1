package io.kvtier.tiers.object;

import io.kvtier.tiers.transfer.Transfer;

/**
 * A block in any namespace, by what is left of its name in 128 bits. Two blocks of one such key are
 * unlikely beyond concern; what comes of them is a miss or a call for nothing.
 */
public record ObjectKey(long high, long low) {
  private static final long FIRST = 0x9E37_79B9_7F4A_7C15L;
  private static final long SECOND = 0xC2B2_AE3D_27D4_EB4FL;

  /** Of the block of a transfer. */
  public static ObjectKey of(Transfer transfer) {
    return of(
        transfer.namespaceHigh,
        transfer.namespaceLow,
        transfer.key,
        transfer.keyBytes,
        transfer.group);
  }

  /** Of a block. */
  public static ObjectKey of(
      long namespaceHigh, long namespaceLow, byte[] key, int keyBytes, int group) {
    long high = mix(namespaceHigh ^ FIRST, group);
    long low = mix(namespaceLow ^ SECOND, keyBytes);
    for (int begin = 0; begin < keyBytes; begin += Long.BYTES) {
      long word = 0;
      for (int i = begin; i < Math.min(keyBytes, begin + Long.BYTES); i++) {
        word = (word << Byte.SIZE) | (key[i] & 0xff);
      }
      high = mix(high, word);
      low = mix(low + SECOND, Long.rotateLeft(word, 32) ^ high);
    }
    return new ObjectKey(high, low);
  }

  /** The finalizer of SplitMix64 (Steele, Lea, Flood, 2014) over a state and a word. */
  private static long mix(long state, long word) {
    long z = (state ^ word) + FIRST;
    z = (z ^ z >>> 30) * 0xBF58_476D_1CE4_E5B9L;
    z = (z ^ z >>> 27) * 0x94D0_49BB_1331_11EBL;
    return z ^ z >>> 31;
  }
}
