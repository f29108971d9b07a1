package io.kvtier.protocol;

/**
 * Text as it may go onto a terminal, into a log or onto a page, whoever wrote it: what moves a
 * cursor, changes colours, titles or the direction of reading, ends a line or can't be seen is
 * written as its number, as in Java and JSON ({@code \u001b}). So JSON stays the same JSON. All
 * that shows names of clients uses this, at its edge; in between, names stay what they are.
 */
public final class Printable {
  private Printable() {}

  /** A line. */
  public static String of(String text) {
    return escaped(text, false);
  }

  /** Lines of this program's own, in which names may stand. */
  public static String linesOf(String text) {
    return escaped(text, true);
  }

  private static String escaped(String text, boolean keepsLines) {
    StringBuilder out = null;
    int length = text.length();
    for (int i = 0; i < length; ) {
      int point = text.codePointAt(i);
      int end = i + Character.charCount(point);
      boolean isShown = isShown(point) || (keepsLines && (point == '\n' || point == '\t'));
      if (out == null && !isShown) {
        out = new StringBuilder(length + 16).append(text, 0, i);
      }
      if (out != null) {
        if (isShown) {
          out.appendCodePoint(point);
        } else {
          for (int at = i; at < end; at++) {
            out.append("\\u").append(String.format("%04x", (int) text.charAt(at)));
          }
        }
      }
      i = end;
    }
    return out == null ? text : out.toString();
  }

  private static boolean isShown(int point) {
    if (point >= ' ' && point < 0x7f) {
      return true;
    }
    return switch (Character.getType(point)) {
      case Character.CONTROL,
          Character.FORMAT,
          Character.SURROGATE,
          Character.PRIVATE_USE,
          Character.UNASSIGNED,
          Character.LINE_SEPARATOR,
          Character.PARAGRAPH_SEPARATOR ->
          false;
      default -> true;
    };
  }
}
