package io.kvtier.protocol;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;

/**
 * The generator of the Python client's constants, from the Java layouts. {@code main} writes the
 * files; {@link ClientConstantsTest} fails when they are stale.
 */
final class ClientConstants {
  private static final List<Class<?>> LAYOUTS =
      List.of(
          Protocol.class,
          SessionRegionDescriptor.class,
          DaemonRegionDescriptor.class,
          RequestDescriptor.class,
          AnnotationDescriptor.class,
          CompletionDescriptor.class,
          HandshakeDescriptor.class);

  private ClientConstants() {}

  /** Where the checkout is, seen from a module's folder or from the root. */
  static Path checkout() {
    Path here = Path.of("").toAbsolutePath();
    return Files.exists(here.resolve("protocol")) ? here : here.resolveSibling("");
  }

  static Path pythonFile() {
    return checkout().resolve("client-py/src/kvtier/_protocol.py");
  }

  static Path headerFile() {
    return checkout().resolve("client-py/src/kvtier/_protocol.h");
  }

  static String python() {
    StringBuilder out = new StringBuilder();
    out.append(
        "\"\"\"Constants of the kvtier protocol. Generated from the Java layouts by scripts/generate; do not edit.\"\"\"\n\n");
    out.append("from enum import IntEnum\n\n\nclass Status(IntEnum):\n");
    out.append(
        "    \"\"\"The outcome of an operation or of one of its blocks; printed by its name.\n\n");
    for (Status status : Status.values()) {
      out.append("    ").append(status.name()).append(": ").append(status.meaning()).append('\n');
    }
    out.append("    \"\"\"\n\n");
    for (Status status : Status.values()) {
      out.append("    ").append(status.name()).append(" = ").append(status.code()).append('\n');
    }
    out.append("\n    def __str__(self) -> str:\n        return self.name\n");
    out.append("\n\nclass Verb(IntEnum):\n    \"\"\"What a request asks for.\"\"\"\n\n");
    for (Verb verb : Verb.values()) {
      out.append("    ").append(verb.name()).append(" = ").append(verb.code()).append('\n');
    }
    out.append("\n\nclass Tier(IntEnum):\n    \"\"\"Where a block is.\"\"\"\n\n");
    for (TierId tier : TierId.values()) {
      out.append("    ").append(tier.name()).append(" = ").append(tier.code()).append('\n');
    }
    out.append("\n\nCOUNTERS = (\n");
    for (Counter counter : Counter.values()) {
      out.append("    \"").append(counter.key()).append("\",\n");
    }
    out.append(")\n\"\"\"The daemon's counters, in their order in its region.\"\"\"\n\n");
    each((name, value) -> out.append(name).append(" = ").append(hex(value)).append('\n'));
    return out.toString();
  }

  static String header() {
    StringBuilder out = new StringBuilder();
    out.append(
        "/* Constants of the kvtier protocol. Generated from the Java layouts by scripts/generate; do not edit. */\n");
    out.append("#ifndef KVTIER_PROTOCOL_H\n#define KVTIER_PROTOCOL_H\n\n");
    for (Status status : Status.values()) {
      out.append("#define KVTIER_STATUS_")
          .append(status.name())
          .append(' ')
          .append(status.code())
          .append('\n');
    }
    out.append("#define KVTIER_STATUS_COUNT ").append(Status.values().length).append('\n');
    out.append("#define KVTIER_TIER_COUNT ").append(TierId.values().length).append('\n');
    for (Verb verb : Verb.values()) {
      out.append("#define KVTIER_VERB_")
          .append(verb.name())
          .append(' ')
          .append(verb.code())
          .append('\n');
    }
    each((name, value) ->
        out.append("#define KVTIER_")
            .append(name)
            .append(' ')
            .append(hex(value))
            .append(value > Integer.MAX_VALUE ? "ULL\n" : "\n"));
    out.append("\n#endif\n");
    return out.toString();
  }

  private static String hex(long value) {
    return value > 1 << 27 ? String.format(Locale.ROOT, "0x%X", value) : Long.toString(value);
  }

  private interface Sink {
    void constant(String name, long value);
  }

  private static void each(Sink sink) {
    for (Class<?> layout : LAYOUTS) {
      String prefix = prefix(layout);
      for (Field field : layout.getDeclaredFields()) {
        if (Modifier.isPublic(field.getModifiers()) && Modifier.isStatic(field.getModifiers())) {
          try {
            sink.constant(prefix + field.getName(), ((Number) field.get(null)).longValue());
          } catch (IllegalAccessException e) {
            throw new AssertionError(e);
          }
        }
      }
    }
  }

  private static String prefix(Class<?> layout) {
    String name = layout.getSimpleName().replace("RegionDescriptor", "").replace("Descriptor", "");
    return name.equals("Protocol") ? "" : name.toUpperCase(Locale.ROOT) + "_";
  }

  static void write(Path file, String text) {
    try {
      Files.createDirectories(file.getParent());
      Files.writeString(file, text);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  public static void main(String[] arguments) {
    write(pythonFile(), python());
    write(headerFile(), header());
  }
}
