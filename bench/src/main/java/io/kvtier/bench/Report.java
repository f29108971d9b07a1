package io.kvtier.bench;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** The rows of a run, as a table for people and as JSON for programs. */
final class Report {
  private static final int SIGNIFICANT_DIGITS = 6;

  private final List<Row> rows = new ArrayList<>();

  void add(Row row) {
    rows.add(row);
  }

  List<Row> rows() {
    return List.copyOf(rows);
  }

  /** One array of objects, one a line; a missing number is null. */
  String json() {
    StringBuilder json = new StringBuilder("[");
    for (int i = 0; i < rows.size(); i++) {
      Row row = rows.get(i);
      json.append(i == 0 ? "\n" : ",\n").append("  {\"name\": ").append(quote(row.name()));
      json.append(", \"value\": ").append(number(row.value()));
      json.append(", \"unit\": ").append(quote(row.unit()));
      json.append(", \"limit_name\": ").append(quote(row.limitName()));
      json.append(", \"limit\": ").append(number(row.limit()));
      json.append(", \"ratio\": ").append(number(row.ratio())).append('}');
    }
    return json.append("\n]\n").toString();
  }

  void writeJson(Path file) throws IOException {
    Files.writeString(file, json());
  }

  /** Prints the table under a line that says when and where. */
  void print(PrintStream out, String machine) {
    int name = 4;
    int unit = 4;
    for (Row row : rows) {
      name = Math.max(name, row.name().length());
      unit = Math.max(unit, row.unit().length());
    }
    String format = "%-" + name + "s  %12s  %-" + unit + "s  %12s  %8s  %s%n";
    out.println(machine);
    out.println();
    out.printf(Locale.ROOT, format, "name", "value", "unit", "limit", "ratio", "limit is");
    for (Row row : rows) {
      out.printf(
          Locale.ROOT,
          format,
          row.name(),
          shown(row.value()),
          row.unit(),
          shown(row.limit()),
          shown(row.ratio()),
          row.limitName());
    }
  }

  private static String shown(double value) {
    if (!Double.isFinite(value)) {
      return "-";
    }
    double size = Math.abs(value);
    if (size >= 1000) {
      return String.format(Locale.ROOT, "%.0f", value);
    }
    return String.format(Locale.ROOT, size >= 100 ? "%.1f" : size >= 10 ? "%.2f" : "%.3f", value);
  }

  private static String number(double value) {
    return Double.isFinite(value)
        ? String.format(Locale.ROOT, "%." + SIGNIFICANT_DIGITS + "g", value)
        : "null";
  }

  private static String quote(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      switch (c) {
        case '"', '\\' -> quoted.append('\\').append(c);
        case '\n' -> quoted.append("\\n");
        default -> {
          if (c < 0x20) {
            quoted.append(String.format(Locale.ROOT, "\\u%04x", (int) c));
          } else {
            quoted.append(c);
          }
        }
      }
    }
    return quoted.append('"').toString();
  }
}
