package io.kvtier.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class Utf8Test {
  @ParameterizedTest
  @CsvSource({
    "ff, 0xff, 0",
    "61ff, 0xff, 1",
    "61c3, 0xc3, 1",
    "eda080, 0xed, 0",
    "c080, 0xc0, 0",
    "f4908080, 0xf4, 0"
  })
  void bytes_thatAreNoText_areRefusedByTheirPlace(String hex, String first, int place) {
    byte[] bytes = java.util.HexFormat.of().parseHex("20" + hex);

    IllegalArgumentException e =
        assertThrows(IllegalArgumentException.class, () -> Utf8.decode(bytes, 1, bytes.length - 1));

    assertEquals("not UTF-8: byte " + first + " at position " + place, e.getMessage());
  }

  @Test
  void text_isTheSameThereAndBack() {
    for (String text : new String[] {"", "a", "é模🦙"}) {
      byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
      assertEquals(text, Utf8.decode(bytes, 0, bytes.length));
      assertTrue(Utf8.canEncode(text));
    }
  }

  @Test
  void halvesOfPairs_haveNoUtf8() {
    assertFalse(Utf8.canEncode("a\ud83e"));
    assertFalse(Utf8.canEncode("\udd99a"));
    assertFalse(Utf8.canEncode("\udd99\ud83e"));
  }
}
