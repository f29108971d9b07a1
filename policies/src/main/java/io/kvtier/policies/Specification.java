package io.kvtier.policies;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * {@code NAME[:OPTION=VALUE]...[/INNER]}, taken apart.
 *
 * @param inner the specification behind the slash; empty where there is none
 */
record Specification(String name, Map<String, String> options, String inner) {
  /** Takes a specification apart; an {@link IllegalArgumentException} says what is wrong. */
  static Specification parse(String text) {
    int slash = text.indexOf('/');
    String[] parts = (slash < 0 ? text : text.substring(0, slash)).split(":", -1);
    Map<String, String> options = new LinkedHashMap<>();
    for (int i = 1; i < parts.length; i++) {
      int equals = parts[i].indexOf('=');
      if (equals < 1 || equals == parts[i].length() - 1) {
        throw new IllegalArgumentException(
            "'" + parts[i] + "' in '" + text + "' is not OPTION=VALUE");
      }
      options.put(parts[i].substring(0, equals), parts[i].substring(equals + 1));
    }
    return new Specification(parts[0], options, slash < 0 ? "" : text.substring(slash + 1));
  }

  PolicySetup setup(int blocksMax, int capacityBlocks) {
    return new PolicySetup(blocksMax, capacityBlocks, options, inner);
  }

  IllegalArgumentException unknown(String kind, Iterable<String> names) {
    return new IllegalArgumentException(
        "no " + kind + " policy is named '" + name + "'; there are " + String.join(", ", names));
  }
}
