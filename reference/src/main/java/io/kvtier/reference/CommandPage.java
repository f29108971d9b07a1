package io.kvtier.reference;

import static io.kvtier.reference.Markdown.code;
import static io.kvtier.reference.Markdown.escaped;

import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.List;
import picocli.CommandLine;
import picocli.CommandLine.Help;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Model.PositionalParamSpec;

/** The page of a command with all its subcommands, from what picocli knows of them. */
final class CommandPage {
  private CommandPage() {}

  /**
   * The model of a command.
   *
   * @param main its class; the constructor may be private, and its arguments are not used
   */
  static CommandSpec model(String main) throws ReflectiveOperationException {
    Constructor<?> constructor = Class.forName(main).getDeclaredConstructors()[0];
    constructor.setAccessible(true);
    Object command = constructor.newInstance(new Object[constructor.getParameterCount()]);
    return new CommandLine(command).getCommandSpec();
  }

  static String text(CommandSpec command) {
    Markdown page = new Markdown(code(command.name()));
    describe(page, command);
    for (CommandSpec one : parts(command)) {
      page.heading(2, code(one.qualifiedName()), one.qualifiedName("-"));
      describe(page, one);
    }
    return page.toString();
  }

  /** All commands below one, each behind the one that it belongs to. */
  static List<CommandSpec> parts(CommandSpec command) {
    List<CommandSpec> all = new ArrayList<>();
    for (CommandLine part : command.subcommands().values()) {
      CommandSpec spec = part.getCommandSpec();
      if (!spec.usageMessage().hidden()) {
        all.add(spec);
        all.addAll(parts(spec));
      }
    }
    return all;
  }

  static List<OptionSpec> options(CommandSpec command) {
    return command.options().stream().filter(one -> !one.hidden()).toList();
  }

  private static void describe(Markdown page, CommandSpec command) {
    page.paragraph(texts(command.usageMessage().description()));
    Help help = new Help(command, Help.defaultColorScheme(Help.Ansi.OFF));
    page.code("text", help.synopsis(0));
    List<List<String>> rows = new ArrayList<>();
    for (PositionalParamSpec one : command.positionalParameters()) {
      rows.add(List.of(code(one.paramLabel()), described(one)));
    }
    for (OptionSpec one : options(command)) {
      String label = one.arity().max() > 0 ? "=" + one.paramLabel() : "";
      rows.add(List.of(code(String.join(", ", one.names()) + label), described(one)));
    }
    if (!rows.isEmpty()) {
      page.table(List.of("Argument", "Meaning"), rows);
    }
    page.paragraph(texts(command.usageMessage().footer()));
  }

  private static String described(ArgSpec argument) {
    String text = texts(argument.description());
    String value = argument.defaultValue();
    return value == null || text.contains("efault")
        ? text
        : text + " Default: " + code(value) + ".";
  }

  /** Without picocli's markup for colours. */
  private static String texts(String[] lines) {
    List<String> plain = new ArrayList<>();
    for (String one : lines) {
      plain.add(escaped(Help.Ansi.OFF.string(one.formatted()).strip()));
    }
    return String.join("\n\n", plain).strip();
  }
}
