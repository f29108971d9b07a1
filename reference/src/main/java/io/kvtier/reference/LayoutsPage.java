package io.kvtier.reference;

import static io.kvtier.reference.Markdown.code;
import static io.kvtier.reference.Markdown.escaped;

import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * The page of the layouts of shared memory, messages, files and objects: the text and the byte
 * diagrams from the sources of all classes that are called Descriptor, the numbers from the
 * classes.
 */
final class LayoutsPage {
  private static final Pattern CLASS_COMMENT =
      Pattern.compile("/\\*\\*(.*?)\\*/\\s*(?:public )?final class", Pattern.DOTALL);
  private static final Pattern PACKAGE = Pattern.compile("^package ([\\w.]+);", Pattern.MULTILINE);
  private static final Pattern TAG = Pattern.compile("\\{@(?:link|code)\\s+#?([^}]*)}");

  /** One class. */
  record Layout(Class<?> type, String comment, String source) {}

  private LayoutsPage() {}

  static String text(Path checkout) throws IOException, ReflectiveOperationException {
    Markdown page = new Markdown("Protocol and storage layouts");
    page.paragraph(
        "Every layout that another process, another version or another machine may read. The numbers"
            + " are constants of the classes; the Python client's copy of them is generated from the"
            + " same classes. [Protocol](protocol.md) tells how the layouts are used.");
    for (Layout layout : layouts(checkout)) {
      String name = layout.type.getSimpleName().replace("Descriptor", "");
      page.heading(2, words(name), name.toLowerCase(Locale.ROOT));
      page.paragraph("Class " + code(layout.type.getName()) + ".");
      comment(page, layout.comment);
      List<List<String>> rows = new ArrayList<>();
      for (Field field : constants(layout.type)) {
        rows.add(
            List.of(
                code(field.getName()),
                code(value(field)),
                commentOf(layout.source, field.getName())));
      }
      page.table(List.of("Constant", "Value", "Meaning"), rows);
    }
    return page.toString();
  }

  /** All layouts, those of the protocol first. */
  static List<Layout> layouts(Path checkout) throws IOException, ReflectiveOperationException {
    List<Layout> layouts = new ArrayList<>();
    for (String module : List.of("protocol", "tiers", "daemon")) {
      for (Path file : sources(checkout.resolve(module).resolve("src/main/java"))) {
        String source = Files.readString(file);
        Matcher in = PACKAGE.matcher(source);
        Matcher comment = CLASS_COMMENT.matcher(source);
        if (!in.find() || !comment.find()) {
          throw new IllegalStateException(file + " has no package, or its class no comment");
        }
        String name = file.getFileName().toString().replace(".java", "");
        layouts.add(
            new Layout(
                Class.forName(in.group(1) + "." + name), stripped(comment.group(1)), source));
      }
    }
    return layouts;
  }

  private static List<Path> sources(Path folder) throws IOException {
    try (Stream<Path> files = Files.walk(folder)) {
      return files
          .filter(file -> file.getFileName().toString().matches("\\w+Descriptor\\.java"))
          .sorted()
          .toList();
    }
  }

  /** The constants that say where something stands, or how large it is. */
  static List<Field> constants(Class<?> type) {
    List<Field> found = new ArrayList<>();
    for (Field field : type.getDeclaredFields()) {
      int flags = field.getModifiers();
      if (Modifier.isStatic(flags)
          && !Modifier.isPrivate(flags)
          && Modifier.isFinal(flags)
          && field.getType().isPrimitive()) {
        found.add(field);
      }
    }
    return found;
  }

  private static String value(Field field) throws ReflectiveOperationException {
    field.setAccessible(true);
    Object value = field.get(null);
    return value instanceof Long number && (number > Integer.MAX_VALUE || number < 0)
        ? String.format(Locale.ROOT, "0x%016X", number)
        : String.valueOf(value);
  }

  private static String commentOf(String source, String constant) {
    Matcher found =
        Pattern.compile(
                "/\\*\\*((?:(?!\\*/).)*?)\\*/\\s*(?:public )?static final \\w+ " + constant + "\\b",
                Pattern.DOTALL)
            .matcher(source);
    return found.find() ? escaped(plain(stripped(found.group(1)).replace('\n', ' '))) : "";
  }

  /** A comment of Javadoc as Markdown. */
  private static void comment(Markdown page, String comment) {
    for (String part : comment.split("(?=<pre>)|(?<=</pre>)", -1)) {
      if (part.startsWith("<pre>")) {
        String diagram = part.replaceAll("</?pre>", "").replaceAll("^\n+|\\s+$", "");
        page.code("text", TAG.matcher(diagram).replaceAll("$1"));
      } else {
        for (String paragraph : part.split("\n\\s*\n|<p>", -1)) {
          page.paragraph(escaped(plain(paragraph.replace('\n', ' '))));
        }
      }
    }
  }

  private static String plain(String javadoc) {
    return TAG.matcher(javadoc).replaceAll("`$1`").strip();
  }

  /** Without the stars of its lines. */
  private static String stripped(String comment) {
    return String.join(
        "\n", comment.lines().map(one -> one.replaceFirst("^\\s*\\* ?", "")).toList());
  }

  private static String words(String name) {
    String words = name.replaceAll("(?<=[a-z])(?=[A-Z])", " ").toLowerCase(Locale.ROOT);
    return words.substring(0, 1).toUpperCase(Locale.ROOT) + words.substring(1);
  }
}
