package io.kvtier.daemon.config;

import io.kvtier.tiers.files.ByteSize;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.StringJoiner;
import org.jspecify.annotations.Nullable;
import org.snakeyaml.engine.v2.api.LoadSettings;
import org.snakeyaml.engine.v2.api.lowlevel.Compose;
import org.snakeyaml.engine.v2.exceptions.Mark;
import org.snakeyaml.engine.v2.exceptions.MarkedYamlEngineException;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;
import org.snakeyaml.engine.v2.nodes.MappingNode;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;
import org.snakeyaml.engine.v2.nodes.ScalarNode;
import org.snakeyaml.engine.v2.nodes.SequenceNode;
import org.snakeyaml.engine.v2.nodes.Tag;

/**
 * One YAML text of the configuration as dotted keys. It is read as a tree of nodes, not as objects:
 * nodes have line numbers, and values as they were written.
 */
final class ConfigYaml {
  /** The lists whose items have keys of their own. */
  private static final Set<String> LISTS_OF_MAPS = Set.of("tenants", "plugins.sources");

  /** Maximum size of a file: a device that is named by mistake must not fill the heap. */
  private static final int BYTES_MAX = 1 << 20;

  /**
   * A value as it was written.
   *
   * @param text null for a list
   * @param items null for a single value
   * @param where the file and the line, or the setting
   */
  record Value(@Nullable String text, @Nullable List<String> items, String where) {
    /** A setting's value. */
    static Value of(String text, String where) {
      return new Value(text, null, where);
    }

    /** The value as messages show it. */
    @Override
    public String toString() {
      return items == null ? String.valueOf(text) : items.toString();
    }
  }

  private final String name;
  private final @Nullable KnownKeys known;
  private final List<String> problems;
  private final Map<String, Value> values = new LinkedHashMap<>();
  private final Map<String, String> sections = new HashMap<>();

  private ConfigYaml(String name, @Nullable KnownKeys known, List<String> problems) {
    this.name = name;
    this.known = known;
    this.problems = problems;
  }

  /**
   * Reads a text.
   *
   * @param name of the text, for messages
   * @param known the keys that may stand in it; null: any
   * @param problems gets one line for each mistake
   */
  static Map<String, Value> parse(
      String text, String name, @Nullable KnownKeys known, List<String> problems) {
    ConfigYaml yaml = new ConfigYaml(name, known, problems);
    try {
      new Compose(LoadSettings.builder().setLabel(name).build())
          .composeString(text)
          .ifPresent(yaml::root);
    } catch (MarkedYamlEngineException e) {
      // The place, without the text: the text can contain a secret.
      Optional<Mark> mark = e.getProblemMark().or(e::getContextMark);
      problems.add(
          mark.map(at -> name + ", line " + (at.getLine() + 1) + ", column " + (at.getColumn() + 1))
                  .orElse(name)
              + ": not valid YAML: "
              + words(e));
    } catch (YamlEngineException e) {
      problems.add(name + ": not valid YAML: " + e.getMessage());
    }
    return yaml.values;
  }

  /** The most frequent mistakes in words for people; the parser's message for others. */
  private static String words(MarkedYamlEngineException e) {
    String problem = String.valueOf(e.getProblem());
    if (problem.startsWith("expected <block end>, but found")) {
      return "this line does not stand below those it belongs to: indent it as they are";
    }
    if (problem.startsWith("mapping values are not allowed here")) {
      return "a second ':' in one line, or the line is indented further than the one above: put"
          + " quotes round a value that has ': ' in it, and indent lines that belong together"
          + " equally";
    }
    return (e.getContext() == null ? "" : e.getContext() + ", ") + problem;
  }

  /**
   * The text of a configuration file. If the file can't be read, the text is empty, and a problem
   * is added.
   */
  static String text(Path file, List<String> problems) {
    String problem;
    try {
      if (Files.isDirectory(file)) {
        problem = "is a folder; name a YAML file in it";
      } else {
        byte[] bytes;
        try (InputStream in = Files.newInputStream(file)) {
          bytes = in.readNBytes(BYTES_MAX + 1);
        }
        if (bytes.length <= BYTES_MAX) {
          return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
        }
        problem = "has more than " + ByteSize.words(BYTES_MAX) + "; is it the right file?";
      }
    } catch (NoSuchFileException e) {
      problem =
          "does not exist; kvtierd --print-config shows what may stand in one, and without --config"
              + " the daemon takes its defaults";
    } catch (AccessDeniedException e) {
      problem =
          "can't be read: no permission for user '"
              + System.getProperty("user.name")
              + "'; make it and its folders readable for the daemon";
    } catch (CharacterCodingException e) {
      problem = "is not text in UTF-8; expected YAML, such as kvtierd --print-config shows";
    } catch (IOException e) {
      problem = "can't be read: " + e.getMessage();
    }
    problems.add("configuration file '" + file + "' " + problem);
    return "";
  }

  private void root(Node node) {
    if (node instanceof MappingNode map) {
      section("", map);
    } else if (!isNull(node)) {
      problems.add(where(node) + ": expected sections such as 'host:', found " + describe(node));
    }
  }

  private void section(String prefix, MappingNode map) {
    for (NodeTuple entry : map.getValue()) {
      Node keyNode = entry.getKeyNode();
      if (!(keyNode instanceof ScalarNode scalar)) {
        problems.add(where(keyNode) + ": expected a key, found " + describe(keyNode));
        continue;
      }
      String key = prefix + scalar.getValue();
      Node node = entry.getValueNode();
      boolean isKnownSection = known != null && known.hasSection(key);
      if (node instanceof MappingNode inner) {
        // Only known sections are entered: a map that contains itself through an alias has no
        // end.
        if (known == null || isKnownSection) {
          String earlier = sections.putIfAbsent(key, where(keyNode));
          if (earlier != null) {
            problems.add(
                where(keyNode)
                    + ": section "
                    + key
                    + " stands there already at "
                    + earlier
                    + "; put its keys there");
          }
          section(key + ".", inner);
        } else {
          problems.add(where(keyNode) + ": " + known.sectionProblem(key));
        }
      } else if (known == null || known.hasKey(key)) {
        put(key, value(key, node), where(keyNode));
      } else if (!isKnownSection || !isNull(node)) {
        // A section without keys, such as one of comments alone, changes nothing.
        problems.add(where(keyNode) + ": " + known.problem(key));
      }
    }
  }

  private void put(String key, Value value, String where) {
    Value earlier = values.putIfAbsent(key, value);
    if (earlier != null) {
      problems.add(
          where + ": " + key + " stands there already at " + earlier.where() + "; remove one");
    }
  }

  private Value value(String key, Node node) {
    String where = where(node);
    if (node instanceof SequenceNode sequence) {
      List<String> items = new ArrayList<>();
      for (Node item : sequence.getValue()) {
        if (item instanceof MappingNode map && LISTS_OF_MAPS.contains(key)) {
          items.add(words(map));
        } else {
          addName(items, item);
        }
      }
      return new Value(null, items, where);
    }
    return new Value(text(node), null, where);
  }

  private static String text(Node node) {
    return node instanceof ScalarNode scalar && !isNull(node) ? scalar.getValue() : "";
  }

  private void addName(List<String> names, Node node) {
    if (node instanceof ScalarNode scalar) {
      names.add(scalar.getValue());
    } else {
      problems.add(where(node) + ": expected a name in the list, found " + describe(node));
    }
  }

  /**
   * A map in a list, as words of {@code key=value}. Names of a list inside the map are joined by
   * '+'. Deeper nodes are refused: a map that contains itself through an alias has no end.
   */
  private String words(MappingNode map) {
    StringJoiner words = new StringJoiner(" ");
    for (NodeTuple entry : map.getValue()) {
      Node node = entry.getValueNode();
      String text = text(node);
      if (node instanceof SequenceNode sequence) {
        List<String> names = new ArrayList<>();
        sequence.getValue().forEach(item -> addName(names, item));
        text = String.join("+", names);
      } else if (!(node instanceof ScalarNode)) {
        problems.add(where(node) + ": expected a name or a list of names, found " + describe(node));
      }
      words.add(
          entry.getKeyNode() instanceof ScalarNode scalar ? scalar.getValue() + "=" + text : "");
    }
    return words.toString();
  }

  private static boolean isNull(Node node) {
    return Tag.NULL.equals(node.getTag());
  }

  /** The kind of a node, without its text: the user may have named a file with a secret key. */
  private static String describe(Node node) {
    return switch (node) {
      case ScalarNode _ -> "a text without a key";
      case SequenceNode _ -> "a list";
      default -> "a section";
    };
  }

  private String where(Node node) {
    return node.getStartMark().map(mark -> name + ", line " + (mark.getLine() + 1)).orElse(name);
  }
}
