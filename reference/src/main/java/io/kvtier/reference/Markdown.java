package io.kvtier.reference;

import java.util.List;

/** A page of Markdown that is being written. */
final class Markdown {
  private final StringBuilder text = new StringBuilder();

  Markdown(String title) {
    text.append("# ").append(title).append("\n\n");
  }

  /** A heading; {@code level} 2 is that of a section. */
  Markdown heading(int level, String title, String anchor) {
    return line("#".repeat(level) + " " + title + " {#" + anchor + "}").line("");
  }

  /** A paragraph of Markdown; nothing where it is empty. */
  Markdown paragraph(String paragraph) {
    return paragraph.isBlank() ? this : line(paragraph.strip()).line("");
  }

  /** A block of code, as it stands. */
  Markdown code(String language, String code) {
    return line("```" + language).line(code.stripTrailing()).line("```").line("");
  }

  /** The head of a table. Its rows follow, and an empty {@link #paragraph} is not needed. */
  Markdown table(List<String> head, List<List<String>> rows) {
    row(head);
    line("|" + " --- |".repeat(head.size()));
    rows.forEach(this::row);
    return line("");
  }

  private void row(List<String> cells) {
    StringBuilder row = new StringBuilder("|");
    for (String cell : cells) {
      row.append(' ').append(cell.replace("\n", " ").replace("|", "\\|").strip()).append(" |");
    }
    line(row.toString());
  }

  private Markdown line(String line) {
    text.append(line).append('\n');
    return this;
  }

  /** A name of the code. */
  static String code(String name) {
    return name.isEmpty() ? "" : name.contains("`") ? "`` " + name + " ``" : "`" + name + "`";
  }

  /** Text for people that is no Markdown. */
  static String escaped(String text) {
    StringBuilder out = new StringBuilder();
    boolean code = false;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      code ^= c == '`';
      out.append(
          code
              ? String.valueOf(c)
              : switch (c) {
                case '<' -> "&lt;";
                case '>' -> "&gt;";
                case '*', '_', '[', ']' -> "\\" + c;
                default -> String.valueOf(c);
              });
    }
    return out.toString();
  }

  @Override
  public String toString() {
    return text.toString();
  }
}
