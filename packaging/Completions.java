import java.lang.reflect.Constructor;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import picocli.AutoComplete;
import picocli.CommandLine;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Model.PositionalParamSpec;

/**
 * Writes the completions of a command for bash, zsh and fish, from what picocli knows of it. Takes
 * the class and the folders for the three, in this order.
 */
final class Completions {
  private static final Set<String> FILES = Set.of("FILE", "FILE.svg", "PATH", "FOLDER", "DIR");

  private final String program;
  private final StringBuilder out = new StringBuilder();

  private Completions(String program) {
    this.program = program;
  }

  public static void main(String[] arguments) throws Exception {
    Constructor<?> constructor = Class.forName(arguments[0]).getDeclaredConstructors()[0];
    constructor.setAccessible(true);
    CommandLine command =
        new CommandLine(constructor.newInstance(new Object[constructor.getParameterCount()]));
    String name = command.getCommandName();
    // Packages must have equal bytes in each build: dates are left out.
    String bash = AutoComplete.bash(name, command).replaceAll("(?m)^# (Date|Generated).*\n", "");
    Files.writeString(Path.of(arguments[1], name), bash);
    CommandSpec spec = command.getCommandSpec();
    Files.writeString(Path.of(arguments[2], "_" + name), new Completions(name).zsh(spec));
    Files.writeString(Path.of(arguments[3], name + ".fish"), new Completions(name).fish(spec));
  }

  // ---- zsh

  private String zsh(CommandSpec root) {
    out.append("#compdef ").append(program).append("\n\n");
    zshFunction(root);
    out.append(zshName(root)).append(" \"$@\"\n");
    return out.toString();
  }

  private void zshFunction(CommandSpec command) {
    List<CommandSpec> parts = parts(command);
    out.append(zshName(command)).append("() {\n");
    if (!parts.isEmpty()) {
      out.append("  local curcontext=\"$curcontext\" state line\n  local -a commands\n");
    }
    out.append("  _arguments ").append(parts.isEmpty() ? "-S" : "-C").append(" \\\n");
    for (OptionSpec option : options(command)) {
      for (String name : option.names()) {
        out.append("    '").append(option.isMultiValue() ? "*" : "").append(name);
        boolean isValued = option.arity().max() > 0;
        if (isValued && name.startsWith("--")) {
          out.append('=');
        }
        out.append('[').append(zshText(option.description())).append(']');
        if (isValued) {
          String label = option.paramLabel();
          out.append(option.arity().min() == 0 ? "::" : ":").append(zshWord(label)).append(':');
          out.append(FILES.contains(label) ? "_files" : " ");
        }
        out.append("' \\\n");
      }
    }
    if (parts.isEmpty()) {
      int place = 1;
      for (PositionalParamSpec one : command.positionalParameters()) {
        if (!one.hidden()) {
          boolean isMany = one.arity().max() > 1;
          out.append("    '").append(isMany ? "*" : String.valueOf(place)).append(':');
          out.append(one.required() ? "" : ":").append(zshWord(one.paramLabel())).append(':');
          out.append(FILES.contains(one.paramLabel()) ? "_files" : zshValues(one)).append("' \\\n");
          place++;
        }
      }
      out.append("    && return 0\n}\n\n");
      return;
    }
    out.append("    '1: :->command' \\\n    '*:: :->rest' \\\n    && return 0\n");
    out.append("  case $state in\n    command)\n      commands=(\n");
    for (CommandSpec part : parts) {
      out.append("        '").append(part.name()).append(':');
      out.append(zshText(part.usageMessage().description())).append("'\n");
    }
    out.append("      )\n      _describe command commands\n      ;;\n    rest)\n");
    out.append("      case $line[1] in\n");
    for (CommandSpec part : parts) {
      out.append("        ").append(part.name()).append(") ").append(zshName(part)).append(" ;;\n");
    }
    out.append("      esac\n      ;;\n  esac\n}\n\n");
    parts.forEach(this::zshFunction);
  }

  private static String zshName(CommandSpec command) {
    return "_" + command.qualifiedName("_").replace('-', '_');
  }

  private static String zshValues(PositionalParamSpec one) {
    List<String> words = new ArrayList<>();
    if (one.completionCandidates() != null) {
      one.completionCandidates().forEach(words::add);
    }
    // An empty list: after a message alone, zsh would not complete options either.
    return words.isEmpty() ? "( )" : "(" + String.join(" ", words) + ")";
  }

  private static String zshText(String[] lines) {
    String plain = purpose(lines).replaceAll("[\\[\\]\\\\`$\"]", "").replace(":", " -");
    return plain.replace("'", "'\\''");
  }

  private static String zshWord(String label) {
    return label.toLowerCase(Locale.ROOT).replaceAll("[^a-z0-9=-]", " ").strip();
  }

  // ---- fish

  private String fish(CommandSpec root) {
    String is = "__" + program + "_is";
    out.append("# Whether the words so far, without options, begin with the command $argv; with --only:");
    out.append(" are that command.\n");
    out.append("function ").append(is).append("\n");
    out.append(
        """
            set -l only no
            if test "$argv[1]" = --only
                set only yes
                set -e argv[1]
            end
            set -l words
            for word in (commandline -opc)[2..-1]
                string match -q -- '-*' $word; or set -a words $word
            end
            test (count $words) -ge (count $argv); or return 1
            test $only = no -o (count $words) -eq (count $argv); or return 1
            for place in (seq (count $argv))
                test "$words[$place]" = "$argv[$place]"; or return 1
            end
            return 0
        end

        """);
    out.append("complete -c ").append(program).append(" -f\n");
    fishCommand(root, is, "");
    return out.toString();
  }

  private void fishCommand(CommandSpec command, String is, String path) {
    String where = " -n '" + is + path + "'";
    String only = " -n '" + is + " --only" + path + "'";
    for (CommandSpec part : parts(command)) {
      out.append("complete -c ").append(program).append(only).append(" -a ").append(part.name());
      out.append(" -d '").append(fishText(part.usageMessage().description())).append("'\n");
    }
    for (OptionSpec option : options(command)) {
      out.append("complete -c ").append(program).append(parts(command).isEmpty() ? where : only);
      for (String name : option.names()) {
        out.append(name.startsWith("--") ? " -l " + name.substring(2) : " -s " + name.substring(1));
      }
      if (option.arity().min() > 0) {
        out.append(FILES.contains(option.paramLabel()) ? " -r -F" : " -x");
      }
      out.append(" -d '").append(fishText(option.description())).append("'\n");
    }
    for (PositionalParamSpec one : command.positionalParameters()) {
      if (FILES.contains(one.paramLabel())) {
        out.append("complete -c ").append(program).append(where).append(" -F\n");
      } else if (one.completionCandidates() != null) {
        out.append("complete -c ").append(program).append(only).append(" -a '");
        out.append(String.join(" ", one.completionCandidates())).append("'\n");
      }
    }
    for (CommandSpec part : parts(command)) {
      fishCommand(part, is, path + " " + part.name());
    }
  }

  private static String fishText(String[] lines) {
    return purpose(lines).replace("\\", "").replace("'", "\\'");
  }

  // ---- both

  private static List<CommandSpec> parts(CommandSpec command) {
    List<CommandSpec> parts = new ArrayList<>();
    command.subcommands().values().forEach(one -> parts.add(one.getCommandSpec()));
    parts.removeIf(one -> one.usageMessage().hidden());
    return parts;
  }

  private static List<OptionSpec> options(CommandSpec command) {
    return command.options().stream().filter(one -> !one.hidden()).toList();
  }

  /** The first sentence, on one line. */
  private static String purpose(String[] lines) {
    String text = CommandLine.Help.Ansi.OFF.string(String.join(" ", lines).formatted());
    int end = text.indexOf(". ");
    String first = end < 0 ? text : text.substring(0, end);
    return first.replaceFirst("\\.$", "").strip();
  }
}
