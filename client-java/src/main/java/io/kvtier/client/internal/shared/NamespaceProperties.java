package io.kvtier.client.internal.shared;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.Printable;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Utf8;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * The name of a namespace, and all that makes its bytes interchangeable.
 *
 * @param all the properties with the name
 * @param text one line {@code property=value} for each property, sorted
 * @param encoding how blocks are encoded; null when they are not
 */
public record NamespaceProperties(
    String name,
    long blockBytes,
    Map<String, String> all,
    String text,
    @Nullable BlockEncoding encoding) {
  /** Checks the arguments of a caller. */
  public static NamespaceProperties of(
      String name, long blockBytes, Map<String, String> properties) {
    Objects.requireNonNull(name, "the namespace's name is null");
    if (name.isEmpty()) {
      throw new IllegalArgumentException(
          "the namespace has no name: give it one that all who share its blocks use");
    }
    TreeMap<String, String> sorted =
        new TreeMap<>(Objects.requireNonNull(properties, "the namespace's properties are null"));
    String given = sorted.put("name", name);
    if (given != null && !given.equals(name)) {
      throw new IllegalArgumentException(
          "the namespace is called '" + name + "', its properties say '" + given + "'");
    }
    if (blockBytes <= 0) {
      throw new IllegalArgumentException("a block has at least 1 byte, not " + blockBytes);
    }
    StringBuilder lines = new StringBuilder();
    sorted.forEach((property, value) -> {
      Objects.requireNonNull(value, () -> "the property '" + property + "' is null");
      if (property.isEmpty() || property.contains("=") || (property + value).contains("\n")) {
        throw new IllegalArgumentException(
            "a property is one line 'property=value', which '"
                + property
                + "="
                + value
                + "' is not");
      }
      lines.append(property).append('=').append(value).append('\n');
    });
    String text = lines.toString();
    if (!Utf8.canEncode(text)) {
      throw new IllegalArgumentException(
          "the namespace '"
              + Printable.of(name)
              + "' or one of its properties has half of a surrogate pair, which no UTF-8 can say:"
              + " give it a name that is text");
    }
    if (text.getBytes(UTF_8).length > Protocol.TEXT_BYTES_MAX) {
      throw new IllegalArgumentException(
          "the properties have more than " + Protocol.TEXT_BYTES_MAX + " bytes");
    }
    return new NamespaceProperties(
        name, blockBytes, Map.copyOf(sorted), text, BlockEncoding.of(sorted, blockBytes));
  }

  @Override
  public String toString() {
    return "namespace " + name + ", blocks of " + blockBytes + " bytes";
  }
}
