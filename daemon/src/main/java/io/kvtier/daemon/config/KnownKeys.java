package io.kvtier.daemon.config;

import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** The keys that the embedded configuration has, and what to suggest for one that it has not. */
final class KnownKeys {
  /** Beyond so many edits a suggestion is a guess. */
  private static final int EDITS_MAX = 5;

  private final Set<String> keys;
  private final Set<String> sections = new TreeSet<>();

  KnownKeys(Set<String> keys) {
    this.keys = keys;
    for (String key : keys) {
      for (int dot = key.indexOf('.'); dot >= 0; dot = key.indexOf('.', dot + 1)) {
        sections.add(key.substring(0, dot));
      }
    }
  }

  boolean hasKey(String key) {
    return keys.contains(key);
  }

  boolean hasSection(String name) {
    return sections.contains(name);
  }

  /** What is wrong with a key that is not known. */
  String problem(String key) {
    if (hasSection(key)) {
      return "'"
          + key
          + "' is a section: expected one of its keys, such as '"
          + keys.stream().filter(each -> each.startsWith(key + ".")).findFirst().orElse(key)
          + "'";
    }
    String suffix = "." + key;
    List<String> sameName = keys.stream().filter(each -> each.endsWith(suffix)).toList();
    if (!sameName.isEmpty()) {
      return "unknown key '" + key + "'; did you mean " + quoted(sameName) + "?";
    }
    String section = key.substring(0, Math.max(0, key.lastIndexOf('.')));
    if (!hasSection(section)) {
      return "unknown key '" + key + "'" + suggestion(keys, key, EDITS_MAX);
    }
    // What stands under the right name is not meant for another section.
    Set<String> beside =
        keys.stream()
            .filter(each -> each.lastIndexOf('.') == section.length())
            .filter(each -> each.startsWith(section))
            .collect(Collectors.toCollection(TreeSet::new));
    int editsMax = Math.min(EDITS_MAX, (key.length() - section.length() - 1) / 2);
    return nearest(beside, key, editsMax) == null
        ? "unknown key '" + key + "'; '" + section + "' has " + leaves(beside)
        : "unknown key '" + key + "'" + suggestion(beside, key, editsMax);
  }

  private static String leaves(Set<String> keys) {
    return keys.stream()
        .map(key -> key.substring(key.lastIndexOf('.') + 1))
        .collect(Collectors.joining(", "));
  }

  /** What is wrong with a section that is not known. */
  String sectionProblem(String name) {
    if (hasKey(name)) {
      return "'" + name + "' is a key: expected its value, found a section";
    }
    return "unknown section '" + name + "'" + suggestion(sections, name, 2);
  }

  private static String quoted(Collection<String> names) {
    return names.stream().map(name -> "'" + name + "'").collect(Collectors.joining(" or "));
  }

  private static String suggestion(Set<String> known, String name, int editsMax) {
    String nearest = nearest(known, name, editsMax);
    return nearest == null
        ? "; kvtierd --print-config shows all keys"
        : "; did you mean '" + nearest + "'?";
  }

  private static @Nullable String nearest(Set<String> known, String name, int editsMax) {
    String nearest = null;
    // A word of which every letter would have to change is another word.
    int best = Math.min(editsMax + 1, name.length() - (name.lastIndexOf('.') + 1));
    for (String each : known) {
      int distance = distance(each, name);
      if (distance < best) {
        best = distance;
        nearest = each;
      }
    }
    return nearest;
  }

  private static int distance(String a, String b) {
    int[] row = new int[b.length() + 1];
    for (int j = 0; j < row.length; j++) {
      row[j] = j;
    }
    for (int i = 1; i <= a.length(); i++) {
      int diagonal = row[0];
      row[0] = i;
      for (int j = 1; j < row.length; j++) {
        int above = row[j];
        int replaced = diagonal + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
        row[j] = Math.min(replaced, Math.min(row[j], row[j - 1]) + 1);
        diagonal = above;
      }
    }
    return row[b.length()];
  }
}
