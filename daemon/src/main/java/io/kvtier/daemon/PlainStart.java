package io.kvtier.daemon;

import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * What a start is asked for by options with values alone, as services ask: read without picocli,
 * the loading of which takes as long as the rest of a quick start.
 *
 * @param config the configuration file; {@code null} for none
 * @param settings of {@code --set} and, last, {@code --socket}, each {@code KEY=VALUE}
 */
record PlainStart(@Nullable Path config, List<String> settings) {
  /** The commands of {@code kvtierd}. */
  static final Set<String> COMMANDS = Set.of("config", "doctor");

  PlainStart {
    settings = List.copyOf(settings);
  }

  /**
   * Reads a command line as picocli would.
   *
   * @return {@code null} for whatever is not so plain, mistakes too, which are picocli's to explain
   */
  static @Nullable PlainStart of(String[] arguments) {
    List<String> settings = new ArrayList<>();
    String config = null;
    String socket = null;
    for (int i = 0; i < arguments.length; i++) {
      String name = arguments[i];
      String value;
      int equals = name.indexOf('=');
      if (equals >= 0) {
        value = name.substring(equals + 1);
        name = name.substring(0, equals);
      } else if (++i < arguments.length) {
        value = arguments[i];
      } else {
        return null;
      }
      // Options, files of arguments, quotes and commands in a value's place: all have their rules.
      if (value.isEmpty() || "-@\"".indexOf(value.charAt(0)) >= 0 || COMMANDS.contains(value)) {
        return null;
      }
      switch (name) {
        case "--set" -> settings.add(value);
        case "--config" -> {
          if (config != null) {
            return null;
          }
          config = value;
        }
        case "--socket" -> {
          if (socket != null) {
            return null;
          }
          socket = value;
        }
        default -> {
          return null;
        }
      }
    }
    try {
      if (socket != null) {
        settings.add("socket.path=" + Path.of(socket));
      }
      return new PlainStart(config == null ? null : Path.of(config), settings);
    } catch (InvalidPathException e) {
      return null; // of letters that the locale does not have
    }
  }
}
