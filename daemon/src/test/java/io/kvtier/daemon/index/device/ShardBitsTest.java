package io.kvtier.daemon.index.device;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.layout.IndexRange;
import io.kvtier.layout.Shard;
import org.junit.jupiter.api.Test;

final class ShardBitsTest {
  /** Two of 24 heads, whose layers begin within words. */
  private static final Shard SHARD = new Shard(IndexRange.all(7), 7, new IndexRange(20, 22), 24);

  @Test
  void has_eachHeadOfEachLayer_isWhatWasSet() {
    long[] bits = new long[3];
    assertEquals(4, ShardBits.set(bits, SHARD, 24, 2, 4));
    for (int layer = 0; layer < 7; layer++) {
      boolean isOfLayer = layer == 2 || layer == 3;
      for (int head = 0; head < 24; head++) {
        boolean isOfShard = isOfLayer && (head == 20 || head == 21);
        assertEquals(isOfShard, ShardBits.has(bits, 24, layer, head), layer + " " + head);
      }
      assertEquals(isOfLayer, ShardBits.has(bits, 24, layer, -1), "any head of layer " + layer);
    }
  }

  @Test
  void has_blockWithOneBitForEachLayer_countsForAllHeads() {
    long[] bits = new long[1];
    assertEquals(1, ShardBits.set(bits, SHARD, 1, 5, 6));
    assertTrue(ShardBits.has(bits, 1, 5, 20));
    assertTrue(ShardBits.has(bits, 1, 5, 0));
    assertFalse(ShardBits.has(bits, 1, 4, 0));
  }

  @Test
  void cleared_arrayThatIsLargeEnough_hasNoBit_ofALongerBlock() {
    long[] bits = {5, 6, 7};
    assertTrue(ShardBits.hasAny(bits));
    assertSame(bits, ShardBits.cleared(bits, 128));
    assertFalse(ShardBits.hasAny(bits));
    assertFalse(ShardBits.hasAny(ShardBits.cleared(bits, 193)));
  }
}
