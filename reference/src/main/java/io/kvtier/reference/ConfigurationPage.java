package io.kvtier.reference;

import static io.kvtier.reference.Markdown.code;
import static io.kvtier.reference.Markdown.escaped;

import io.kvtier.daemon.config.ConfigLoader;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The page of all configuration keys, from the configuration that is embedded in the daemon. */
final class ConfigurationPage {
  private static final Pattern KEY =
      Pattern.compile("^( *)([a-z0-9_]+):(?: (.*))?$", Pattern.MULTILINE);

  /**
   * One key.
   *
   * @param name with its sections, such as {@code host.bytes}
   * @param value the default; empty for a section
   */
  record Key(String name, String value, boolean section, String comment) {}

  private ConfigurationPage() {}

  static String text() {
    String yaml = ConfigLoader.defaults();
    Markdown page = new Markdown("Configuration");
    page.paragraph(
        "The daemon reads settings from four places. A later place wins over an earlier one: the"
            + " embedded defaults on this page, the file of `--config`, environment variables, and"
            + " `--set KEY=VALUE`. `kvtierd --print-config` prints the file that this page is made"
            + " of.");
    page.paragraph(escaped(head(yaml)));
    for (Key key : keys(yaml)) {
      if (key.section()) {
        page.heading(key.name().contains(".") ? 3 : 2, code(key.name()), key.name());
        page.paragraph(escaped(key.comment()));
      } else {
        page.heading(key.name().indexOf('.') < 0 ? 2 : 3, code(key.name()), key.name());
        page.paragraph(
            "Default: "
                + (key.value().equals("\"\"") ? "empty" : code(key.value()))
                + ". Environment: "
                + code("KVTIERD_" + key.name().replace('.', '_').toUpperCase(Locale.ROOT))
                + ".");
        page.paragraph(escaped(key.comment()));
      }
    }
    return page.toString();
  }

  /** The comment at the head of the file. */
  static String head(String yaml) {
    List<String> lines = new ArrayList<>();
    yaml.lines()
        .takeWhile(line -> line.startsWith("#"))
        .forEach(line -> lines.add(line.substring(1)));
    return joined(lines).replaceFirst("^kvtier: ", "").replaceFirst("^every key", "Every key");
  }

  /** All keys and sections in the order of the file, each with the comment above it. */
  static List<Key> keys(String yaml) {
    List<Key> keys = new ArrayList<>();
    Deque<String> sections = new ArrayDeque<>();
    List<String> comment = new ArrayList<>();
    List<String> lines = yaml.lines().dropWhile(line -> line.startsWith("#")).toList();
    for (String line : lines) {
      Matcher key = KEY.matcher(line);
      if (line.isBlank()) {
        comment.clear();
      } else if (line.strip().startsWith("#")) {
        comment.add(line.strip().substring(1));
      } else if (key.matches()) {
        int depth = key.group(1).length() / 2;
        while (sections.size() > depth) {
          sections.removeLast();
        }
        String name = String.join(".", sections) + (sections.isEmpty() ? "" : ".") + key.group(2);
        boolean section = key.group(3) == null;
        keys.add(new Key(name, section ? "" : key.group(3), section, joined(comment)));
        comment.clear();
        if (section) {
          sections.addLast(key.group(2));
        }
      } else {
        throw new IllegalStateException("a line of the configuration is no key: " + line);
      }
    }
    return keys;
  }

  private static String joined(List<String> lines) {
    return String.join(" ", lines.stream().map(String::strip).toList());
  }
}
