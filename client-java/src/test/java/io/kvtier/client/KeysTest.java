package io.kvtier.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.foreign.MemorySegment;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

final class KeysTest {
  @Test
  void of_wrap_areEqual() {
    for (int length : new int[] {1, 7, 8, 20, 32}) {
      byte[] all = new byte[3 * length];
      byte[][] each = new byte[3][length];
      for (int i = 0; i < all.length; i++) {
        all[i] = (byte) (i * 7);
        each[i / length][i % length] = (byte) (i * 7);
      }
      Keys packed = Keys.of(each);
      Keys wrapped = Keys.wrap(MemorySegment.ofArray(all), length);
      assertEquals(packed, wrapped);
      assertEquals(packed.hashCode(), wrapped.hashCode());
      assertEquals(3, wrapped.count());
      assertArrayEquals(each[2], wrapped.get(2));
      assertEquals(Keys.of(each[1], each[2]), wrapped.slice(1, 3));
      assertNotEquals(packed, wrapped.slice(0, 2));
    }
  }

  @Test
  void of_badKeys_isMisuse() {
    assertThrows(IllegalArgumentException.class, () -> Keys.of(new byte[33]));
    assertThrows(IllegalArgumentException.class, () -> Keys.of(new byte[0]));
    assertThrows(IllegalArgumentException.class, () -> Keys.of(new byte[4], new byte[5]));
    assertThrows(
        IllegalArgumentException.class, () -> Keys.wrap(MemorySegment.ofArray(new byte[33]), 32));
    assertThrows(IndexOutOfBoundsException.class, () -> Keys.of(new byte[4]).get(1));
    assertThrows(IndexOutOfBoundsException.class, () -> Keys.of(new byte[4]).slice(0, 2));
  }

  @Test
  @SuppressWarnings("NullAway") // of callers that are not checked for nulls
  void of_null_isNamed() {
    byte[] none = null;
    byte[][] noKeys = null;
    List<byte[]> noList = null;
    assertEquals("key 0 is null", misuse(() -> Keys.of(none)));
    assertEquals("key 1 is null", misuse(() -> Keys.of(new byte[4], none)));
    assertEquals("keys is null", misuse(() -> Keys.of(noKeys)));
    assertEquals("keys is null", misuse(() -> Keys.of(noList)));
  }

  private static @Nullable String misuse(Executable call) {
    return assertThrows(NullPointerException.class, call).getMessage();
  }

  @Test
  void of_nothing_isEmpty() {
    assertEquals(0, Keys.of(List.of()).count());
  }
}
