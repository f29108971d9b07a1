package io.kvtier.protocol;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CoderResult;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;

/**
 * Names in bytes, and back. Java's own conversions put a character of their own in the place of
 * what is no text: two names that differ there only would become one.
 */
public final class Utf8 {
  private Utf8() {}

  /**
   * What bytes say.
   *
   * @throws IllegalArgumentException where they are no UTF-8, naming the first byte that is not
   */
  public static String decode(byte[] bytes, int offset, int length) {
    CharBuffer text = CharBuffer.allocate(length);
    ByteBuffer from = ByteBuffer.wrap(bytes, offset, length);
    CoderResult result =
        StandardCharsets.UTF_8
            .newDecoder()
            .onMalformedInput(CodingErrorAction.REPORT)
            .onUnmappableCharacter(CodingErrorAction.REPORT)
            .decode(from, text, true);
    if (result.isError()) {
      throw new IllegalArgumentException(
          String.format(
              "not UTF-8: byte 0x%02x at position %d",
              bytes[from.position()] & 0xff, from.position() - offset));
    }
    return text.flip().toString();
  }

  /** Whether a text has a UTF-8 of its own: it has no half of a surrogate pair. */
  public static boolean canEncode(String text) {
    for (int i = 0; i < text.length(); i++) {
      char unit = text.charAt(i);
      if (Character.isHighSurrogate(unit)
          && i + 1 < text.length()
          && Character.isLowSurrogate(text.charAt(i + 1))) {
        i++;
      } else if (Character.isSurrogate(unit)) {
        return false;
      }
    }
    return true;
  }
}
