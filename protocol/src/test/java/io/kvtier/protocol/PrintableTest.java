package io.kvtier.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class PrintableTest {
  @ParameterizedTest
  @CsvSource({
    "27, \\u001b", // ESC
    "7, \\u0007", // the end of an OSC
    "10, \\u000a",
    "13, \\u000d",
    "9, \\u0009",
    "127, \\u007f",
    "155, \\u009b", // CSI in one character
    "157, \\u009d", // OSC in one character
    "133, \\u0085", // a next line
    "8232, \\u2028",
    "8233, \\u2029",
    "8238, \\u202e", // what follows is read from right to left
    "8295, \\u2067",
    "8203, \\u200b", // no space at all
    "65279, \\ufeff",
    "55296, \\ud800", // half of a pair
    "57344, \\ue000", // of private use
    "917601, \\udb40\\udc61", // a tag that nobody sees
  })
  void whatIsNoSign_isWrittenAsItsNumber(int point, String shown) {
    String text = "a" + Character.toString(point) + "b";

    assertEquals("a" + shown + "b", Printable.of(text));
  }

  @Test
  void signs_stayWhatTheyAre() {
    for (String text : new String[] {"", "meta/llama-3.1 8B_@|~", "модель", "模型", "é", "🦙"}) {
      assertSame(text, Printable.of(text));
    }
  }

  @Test
  void lines_ofThisProgram_stayLines() {
    assertEquals("a\n\tb\\u001bc\n", Printable.linesOf("a\n\tb\u001bc\n"));
  }
}
