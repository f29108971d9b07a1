package io.kvtier.tiers.outer;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * The options of a source, as they stand in {@code plugins.sources}. An option that is given and
 * never read is refused.
 */
public final class OuterSourceSetup {
  private final Map<String, String> options;
  private final Set<String> read = new HashSet<>();

  /**
   * Options that nobody has read.
   *
   * @param options without the name, and the options that the daemon itself reads
   */
  public OuterSourceSetup(Map<String, String> options) {
    this.options = Map.copyOf(options);
  }

  /** A text that must be given. */
  public String required(String option) {
    read.add(option);
    String text = options.getOrDefault(option, "");
    if (text.isEmpty()) {
      throw new IllegalArgumentException("option '" + option + "' is not set; expected a value");
    }
    return text;
  }

  /** A text. */
  public String text(String option, String otherwise) {
    read.add(option);
    return options.getOrDefault(option, otherwise);
  }

  /** A whole number from {@code min} to {@code max}. */
  public int count(String option, int otherwise, int min, int max) {
    String text = text(option, "");
    if (text.isEmpty()) {
      return otherwise;
    }
    try {
      int count = Integer.parseInt(text);
      if (count >= min && count <= max) {
        return count;
      }
    } catch (NumberFormatException e) {
      // Refused below, like a number that is out of range.
    }
    throw new IllegalArgumentException(
        "option '"
            + option
            + "' is '"
            + text
            + "'; expected a whole number from "
            + min
            + " to "
            + max);
  }

  /** Refuses an option that was given and never read. */
  public void requireAllRead() {
    for (String option : options.keySet()) {
      if (!read.contains(option)) {
        throw new IllegalArgumentException(
            "option '"
                + option
                + "' is unknown; expected "
                + (read.isEmpty() ? "none" : String.join(", ", new TreeSet<>(read))));
      }
    }
  }
}
