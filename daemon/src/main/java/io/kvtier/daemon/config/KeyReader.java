package io.kvtier.daemon.config;

import io.kvtier.daemon.config.ConfigYaml.Value;
import io.kvtier.policies.AdmissionPolicies;
import io.kvtier.policies.EvictionPolicies;
import io.kvtier.protocol.Secrets;
import io.kvtier.tiers.files.ByteSize;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;

/**
 * Reads and checks the values of keys. Each mistake becomes a problem that names the place, the
 * key, the value and what was expected.
 *
 * <p>A mistaken value is replaced by its default, so that the other keys can be checked. A check of
 * two keys is left out when one of them was mistaken.
 */
final class KeyReader {
  private final Map<String, Value> values;
  private final Map<String, Value> defaults;
  private final Set<String> mistaken = new HashSet<>();
  private final List<String> problems;

  /**
   * A reader of the given values.
   *
   * @param values the values of all keys, as they were written
   * @param defaults the defaults of all keys
   * @param problems the problems so far; further problems are added
   */
  KeyReader(Map<String, Value> values, Map<String, Value> defaults, List<String> problems) {
    this.values = new LinkedHashMap<>(values);
    this.defaults = defaults;
    this.problems = problems;
  }

  /** The values of all keys; mistaken ones are replaced by their defaults. */
  Map<String, Value> values() {
    return values;
  }

  /** The keys whose values were mistaken. */
  Set<String> mistaken() {
    return mistaken;
  }

  boolean isMistaken(String key) {
    return mistaken.contains(key);
  }

  /** Whether somebody wrote a value for a key, even if it equals the default. */
  boolean isGiven(String key) {
    return !value(values, key).equals(value(defaults, key));
  }

  // ---- values of one kind
  // ------------------------------------------------------------------------------------------------

  String text(String key) {
    String text = value(values, key).text();
    if (text == null) {
      mistake(key, "one value, not a list");
      text = String.valueOf(value(values, key).text());
    }
    return text.trim();
  }

  List<String> list(String key) {
    Value value = value(values, key);
    if (value.items() != null) {
      return List.copyOf(value.items());
    }
    // The command line and the environment give a list in one word, with or without YAML's
    // brackets.
    String text = String.valueOf(value.text()).strip();
    boolean isBracketed = text.startsWith("[") && text.endsWith("]");
    List<String> list = new ArrayList<>();
    for (String item : (isBracketed ? text.substring(1, text.length() - 1) : text).split(",", -1)) {
      if (!item.isBlank()) {
        list.add(item.trim());
      }
    }
    return list;
  }

  boolean flag(String key) {
    return get(key, KeyReader::parseFlag, "true or false");
  }

  /** Whether the value is {@code auto}, and not {@code off}. */
  boolean autoOrOff(String key) {
    return get(key, KeyReader::parseAutoOrOff, "auto or off");
  }

  int number(String key, int min, int max) {
    int number = get(key, Integer::parseInt, "a whole number");
    require(key, number >= min && number <= max, "a number from " + min + " to " + max);
    return mistaken.contains(key) ? Integer.parseInt(text(key)) : number;
  }

  long size(String key, long min, long max) {
    long bytes = get(key, Units::bytes, "a size such as 512MiB or 4GiB");
    require(
        key,
        bytes >= min && bytes <= max,
        "a size from " + ByteSize.words(min) + " to " + ByteSize.words(max));
    return mistaken.contains(key) ? Units.bytes(text(key)) : bytes;
  }

  long duration(String key) {
    return get(key, Units::nanoseconds, "a duration such as 250ms or 30s");
  }

  /** A duration of more than 0. */
  long positiveDuration(String key) {
    long ns = duration(key);
    require(key, ns > 0, "more than 0");
    return mistaken.contains(key) ? Units.nanoseconds(text(key)) : ns;
  }

  /** A duration, or {@code 0}, which needs no unit. */
  long durationOrZero(String key, String example) {
    return get(
        key,
        text -> text.equals("0") ? 0 : Units.nanoseconds(text),
        "a duration such as " + example + ", or 0");
  }

  /** A path that is a part of a key's value. */
  Path path(String key, String text) {
    try {
      return Path.of(text);
    } catch (InvalidPathException e) {
      require(key, false, "paths");
      return Path.of(".");
    }
  }

  /** The words of an eviction policy that exists. */
  String policy(String key) {
    String policy = text(key);
    try {
      var _ = EvictionPolicies.create(policy, 1, 1);
    } catch (IllegalArgumentException e) {
      require(key, false, "an eviction policy: " + e.getMessage());
    }
    return policy;
  }

  /** The words of an admission policy that exists. */
  String admission(String key) {
    String admission = text(key);
    try {
      var _ = AdmissionPolicies.create(admission, 1);
    } catch (IllegalArgumentException e) {
      require(key, false, "an admission policy: " + e.getMessage());
    }
    return admission;
  }

  /**
   * A value of any kind.
   *
   * @param parser throws {@link IllegalArgumentException}, with a hint as its message or without
   *     one
   */
  <T> T get(String key, Function<String, T> parser, String expected) {
    try {
      return parser.apply(text(key));
    } catch (IllegalArgumentException e) {
      boolean hasHint =
          e.getMessage() != null
              && !(e instanceof NumberFormatException || e instanceof InvalidPathException);
      mistake(key, expected + (hasHint ? "; " + e.getMessage() : ""));
      return parser.apply(text(key));
    }
  }

  // ---- checks
  // ------------------------------------------------------------------------------------------------

  void require(String key, boolean holds, String expected) {
    if (!holds && !mistaken.contains(key)) {
      mistake(key, expected);
    }
  }

  /**
   * Requires that a size is a multiple of a unit.
   *
   * @param unitName the key of the unit, or its size in words
   */
  void requireMultiple(String key, long value, long unit, String unitName) {
    if (!mistaken.contains(unitName)) {
      long below = value / unit * unit;
      require(
          key,
          value % unit == 0,
          "a multiple of "
              + unitName
              + (defaults.containsKey(unitName) ? " (" + ByteSize.words(unit) + ")" : "")
              + ", such as "
              + Units.formatBytes(below == 0 ? unit : below));
    }
  }

  /** Requires that a value is positive and at most the value of another key. */
  void requireAtMost(String key, long value, String limitKey, long limit) {
    require(key, value > 0, "more than 0");
    if (!mistaken.contains(limitKey)) {
      require(key, value <= limit, "at most " + limitKey + " (" + text(limitKey) + ")");
    }
  }

  /** Notes what is wrong with a key, and gives the key its default. */
  private void mistake(String key, String expected) {
    Value value = value(values, key);
    String text = Secrets.hide(key, value.toString().trim());
    // The user has not written this default: another key makes the default wrong.
    problems.add(
        value.equals(value(defaults, key))
            ? key
                + (text.isEmpty() ? " is not set" : " is '" + text + "' by default")
                + ", expected "
                + expected
            : value.where() + ": " + key + " is '" + text + "', expected " + expected);
    mistaken.add(key);
    values.put(key, value(defaults, key));
  }

  private static Value value(Map<String, Value> values, String key) {
    Value value = values.get(key);
    if (value == null) {
      throw new IllegalStateException("the embedded configuration has no key " + key);
    }
    return value;
  }

  // ---- words
  // ------------------------------------------------------------------------------------------------

  static boolean parseFlag(String text) {
    return switch (text) {
      case "true" -> true;
      case "false" -> false;
      case "yes", "on", "True", "TRUE" -> throw new IllegalArgumentException("did you mean true?");
      case "no", "off", "False", "FALSE" ->
          throw new IllegalArgumentException("did you mean false?");
      default -> throw new IllegalArgumentException();
    };
  }

  private static boolean parseAutoOrOff(String text) {
    return switch (text) {
      case "auto" -> true;
      case "off" -> false;
      case "true", "on", "yes" -> throw new IllegalArgumentException("did you mean auto?");
      case "false", "no" -> throw new IllegalArgumentException("did you mean off?");
      default -> throw new IllegalArgumentException();
    };
  }
}
