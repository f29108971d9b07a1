package io.kvtier.daemon.config;

import io.kvtier.daemon.config.KvtierdConfig.PluginsConfig;
import io.kvtier.daemon.config.KvtierdConfig.SourceConfig;
import io.kvtier.daemon.plugins.Plugins;
import io.kvtier.protocol.plugin.PluginException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads the keys that begin with {@code plugins}, and loads the plug-ins. Sections that are read
 * later can name the policies, codecs and sources of plug-ins.
 */
final class PluginSection {
  private static final String DIRECTORY = "plugins.directory";
  private static final String SOURCES = "plugins.sources";
  private static final int THREADS = 4;
  private static final int THREADS_MAX = 256;

  private final KeyReader keys;

  PluginSection(KeyReader keys) {
    this.keys = keys;
  }

  PluginsConfig read() {
    Plugins plugins = load(keys.text(DIRECTORY));
    List<SourceConfig> sources = new ArrayList<>();
    try {
      for (String item : keys.list(SOURCES)) {
        SourceConfig source = source(item);
        requireKnown(source.name(), plugins);
        if (sources.stream().anyMatch(other -> other.name().equals(source.name()))) {
          throw new IllegalArgumentException("each source once: '" + source.name() + "' is twice");
        }
        sources.add(source);
      }
    } catch (IllegalArgumentException e) {
      keys.require(SOURCES, false, String.valueOf(e.getMessage()));
      sources.clear();
    }
    return new PluginsConfig(plugins, sources);
  }

  private Plugins load(String directory) {
    try {
      return directory.isEmpty() ? Plugins.NONE : Plugins.of(keys.path(DIRECTORY, directory));
    } catch (PluginException e) {
      keys.require(DIRECTORY, false, "plug-ins that can be loaded; " + e.getMessage());
      return Plugins.NONE;
    }
  }

  private void requireKnown(String name, Plugins plugins) {
    if (plugins.source(name) == null && !keys.isMistaken(DIRECTORY)) {
      throw new IllegalArgumentException(
          "sources that a plug-in provides ("
              + (plugins.sourceNames().isEmpty()
                  ? "there is none: set plugins.directory to a folder with one"
                  : String.join(", ", plugins.sourceNames()))
              + "), not '"
              + name
              + "'");
    }
  }

  private static SourceConfig source(String item) {
    Map<String, String> options = new LinkedHashMap<>();
    for (String word : item.strip().split("\\s+", -1)) {
      int equals = word.indexOf('=');
      if (equals < 1) {
        throw new IllegalArgumentException(
            "sources of keys and values without spaces, such as {name: mirror, path: /mnt/blocks},"
                + " not '"
                + word
                + "'");
      }
      if (options.put(word.substring(0, equals), word.substring(equals + 1)) != null) {
        throw new IllegalArgumentException(
            "each key of a source once: '" + word.substring(0, equals) + "' is twice");
      }
    }
    String name = options.remove("name");
    if (name == null || name.isEmpty()) {
      throw new IllegalArgumentException("each source with the name of its provider: {name: ...}");
    }
    String threads = options.remove("threads");
    return new SourceConfig(name, threads == null ? THREADS : threads(name, threads), options);
  }

  private static int threads(String name, String text) {
    try {
      int threads = Integer.parseInt(text);
      if (threads >= 1 && threads <= THREADS_MAX) {
        return threads;
      }
    } catch (NumberFormatException e) {
      // Refused below, like a number that is out of range.
    }
    throw new IllegalArgumentException(
        "threads of source '" + name + "' from 1 to " + THREADS_MAX + ", not '" + text + "'");
  }
}
