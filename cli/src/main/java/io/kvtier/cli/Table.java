package io.kvtier.cli;

import io.kvtier.protocol.Printable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Rows with aligned columns. */
final class Table {
  private final boolean[] right;
  private final List<String[]> rows = new ArrayList<>();

  /**
   * A table with a heading.
   *
   * @param heading the columns; those that begin with {@code >} are aligned to the right
   */
  Table(String... heading) {
    right = new boolean[heading.length];
    String[] names = new String[heading.length];
    for (int i = 0; i < heading.length; i++) {
      right[i] = heading[i].startsWith(">");
      names[i] = right[i] ? heading[i].substring(1) : heading[i];
    }
    rows.add(names);
  }

  Table row(String... cells) {
    if (cells.length != right.length) {
      throw new IllegalArgumentException(cells.length + " cells in " + right.length + " columns");
    }
    rows.add(Arrays.stream(cells).map(Table::shown).toArray(String[]::new));
    return this;
  }

  /** A name of a client must not look like our own marks, nor move the cursor. */
  private static String shown(String cell) {
    return Printable.of(cell).replace("@|", "@\\u007c");
  }

  boolean isEmpty() {
    return rows.size() == 1;
  }

  /** The lines; the heading is marked bold. */
  List<String> lines() {
    int[] width = new int[right.length];
    for (String[] row : rows) {
      for (int i = 0; i < row.length; i++) {
        width[i] = Math.max(width[i], row[i].length());
      }
    }
    List<String> lines = new ArrayList<>();
    for (String[] row : rows) {
      StringBuilder line = new StringBuilder();
      for (int i = 0; i < row.length; i++) {
        String pad = " ".repeat(width[i] - row[i].length());
        line.append(i == 0 ? "" : "  ").append(right[i] ? pad + row[i] : row[i] + pad);
      }
      String text = line.toString().stripTrailing();
      lines.add(lines.isEmpty() ? "@|bold " + text + "|@" : text);
    }
    return lines;
  }
}
