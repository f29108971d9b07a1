package io.kvtier.daemon.config;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Throws what may be no configuration at the parser. An input is the bytes of a file; behind a zero
 * byte may stand settings, each ended by another: {@code key=value}, or {@code $VARIABLE=value} for
 * the environment.
 */
public final class ConfigFuzz {
  private static final Path FILE = file();

  private ConfigFuzz() {}

  private static Path file() {
    try {
      Path file = Files.createTempFile("kvtier-fuzz-", ".yaml");
      file.toFile().deleteOnExit();
      return file;
    } catch (IOException e) {
      throw new IllegalStateException("no temporary file", e);
    }
  }

  /** One input; what it throws is a finding. */
  public static void fuzzerTestOneInput(byte[] input) throws IOException {
    int end = 0;
    while (end < input.length && input[end] != 0) {
      end++;
    }
    try (var out = Files.newOutputStream(FILE)) {
      out.write(input, 0, end);
    }
    List<String> settings = new ArrayList<>();
    Map<String, String> environment = new HashMap<>();
    String rest = new String(input, end, input.length - end, StandardCharsets.UTF_8);
    for (String each : rest.split("\0", -1)) {
      int equals = each.indexOf('=');
      if (each.startsWith("$") && equals > 0) {
        environment.put(each.substring(1, equals), each.substring(equals + 1));
      } else if (!each.isEmpty()) {
        settings.add(each);
      }
    }
    LoadedConfig loaded;
    try {
      loaded = new ConfigSource(FILE, environment, settings).load();
    } catch (ConfigException refused) {
      String why = String.valueOf(refused.getMessage());
      if (!why.contains(FILE.toString()) && !why.contains("--set") && !why.contains("KVTIERD_")) {
        throw new AssertionError("refused without a place: " + why, refused);
      }
      return;
    }
    requireSameAgain(loaded);
  }

  /** What was taken is shown in a form that is taken too, and means the same. */
  private static void requireSameAgain(LoadedConfig loaded) {
    List<String> settings = new ArrayList<>();
    for (LoadedConfig.Entry entry : loaded.entries()) {
      String text = loaded.text(entry.key());
      if (entry.differs() && !text.startsWith("[")) {
        settings.add(entry.key() + "=" + text);
      }
    }
    LoadedConfig lists = loaded;
    try {
      LoadedConfig again = new ConfigSource(FILE, Map.of(), settings).load();
      List<String> changed = new ArrayList<>(loaded.changedFrom(again));
      changed.removeIf(key -> lists.text(key).equals(again.text(key)));
      changed.removeIf(key -> lists.text(key).startsWith("["));
      if (!changed.isEmpty()) {
        throw new AssertionError("another configuration the second time: " + changed);
      }
    } catch (ConfigException e) {
      throw new AssertionError("taken the first time only", e);
    }
  }
}
