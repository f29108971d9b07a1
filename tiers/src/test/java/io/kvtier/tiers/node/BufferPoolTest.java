package io.kvtier.tiers.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import org.junit.jupiter.api.Test;

final class BufferPoolTest {
  private final BufferPool pool = new BufferPool();

  @Test
  void bufferThatWasGivenBack_isTakenAgain_asNew() {
    ByteBuffer first = pool.take(100).order(ByteOrder.LITTLE_ENDIAN).putInt(1).flip();
    pool.giveBack(first);
    assertNotSame(first, pool.take(50), "another size");
    ByteBuffer again = pool.take(100);
    assertSame(first, again);
    assertEquals(100, again.remaining());
    assertEquals(ByteOrder.BIG_ENDIAN, again.order());
    assertNotSame(first, pool.take(100), "it is in use");
  }

  @Test
  void buffersBeyondTheBound_areNotKept() {
    Set<ByteBuffer> taken = Collections.newSetFromMap(new IdentityHashMap<>());
    for (int i = 0; i < 100; i++) {
      taken.add(pool.take(100));
    }
    taken.forEach(pool::giveBack);
    long kept = 0;
    for (int i = 0; i < 100; i++) {
      kept += taken.contains(pool.take(100)) ? 1 : 0;
    }
    assertEquals(64, kept);
  }
}
