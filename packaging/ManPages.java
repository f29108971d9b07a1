import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.Constructor;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Model.PositionalParamSpec;

/**
 * Writes the manual pages of a command, from what picocli knows of it: a page for the command and
 * one for each of its subcommands. The page of the command itself also gets the sections of the
 * file packaging/man/NAME.SECTION. Takes the class, the section of the manual, and the folder for
 * pages.
 */
final class ManPages {
  private final String section;
  private final Path folder;

  private ManPages(String section, Path folder) {
    this.section = section;
    this.folder = folder;
  }

  public static void main(String[] arguments) throws Exception {
    Constructor<?> constructor = Class.forName(arguments[0]).getDeclaredConstructors()[0];
    constructor.setAccessible(true);
    CommandLine command =
        new CommandLine(constructor.newInstance(new Object[constructor.getParameterCount()]));
    new ManPages(arguments[1], Path.of(arguments[2])).write(command.getCommandSpec());
  }

  private void write(CommandSpec command) throws Exception {
    StringWriter text = new StringWriter();
    page(command, new PrintWriter(text, true));
    Files.writeString(folder.resolve(pageName(command) + "." + section), text.toString());
    for (CommandLine part : command.subcommands().values()) {
      if (!part.getCommandSpec().usageMessage().hidden()) {
        write(part.getCommandSpec());
      }
    }
  }

  private static String pageName(CommandSpec command) {
    return command.qualifiedName("-");
  }

  private void page(CommandSpec command, PrintWriter out) throws Exception {
    String name = pageName(command);
    String purpose = String.join(" ", texts(command.usageMessage().description()));
    out.printf(
        ".TH \"%s\" \"%s\" \"\" \"kvtier\" \"kvtier\"%n",
        roff(name.toUpperCase(Locale.ROOT)), section);
    out.println(".SH NAME");
    out.printf("%s \\- %s%n", roff(name), roff(firstSentence(purpose)));
    out.println(".SH SYNOPSIS");
    out.printf("\\fB%s\\fR%s%n", roff(command.qualifiedName()), synopsis(command));
    out.println(".SH DESCRIPTION");
    out.println(line(purpose));
    if (!command.positionalParameters().isEmpty()) {
      out.println(".SH ARGUMENTS");
      for (PositionalParamSpec one : command.positionalParameters()) {
        entry(out, "\\fI" + roff(one.paramLabel()) + "\\fR", one);
      }
    }
    List<OptionSpec> options =
        command.options().stream().filter(one -> !one.hidden()).toList();
    if (!options.isEmpty()) {
      out.println(".SH OPTIONS");
      for (OptionSpec one : options) {
        StringBuilder names = new StringBuilder();
        for (String option : one.names()) {
          names.append(names.isEmpty() ? "" : ", ").append("\\fB").append(roff(option)).append("\\fR");
        }
        if (one.arity().max() > 0) {
          names.append("=\\fI").append(roff(one.paramLabel())).append("\\fR");
        }
        entry(out, names.toString(), one);
      }
    }
    List<CommandSpec> parts = new ArrayList<>();
    command.subcommands().values().forEach(one -> parts.add(one.getCommandSpec()));
    parts.removeIf(one -> one.usageMessage().hidden());
    if (!parts.isEmpty()) {
      out.println(".SH COMMANDS");
      for (CommandSpec one : parts) {
        out.println(".TP");
        out.printf("\\fB%s\\fR(%s)%n", roff(pageName(one)), section);
        out.println(line(String.join(" ", texts(one.usageMessage().description()))));
      }
    }
    boolean first = true;
    for (String one : texts(command.usageMessage().footer())) {
      if (!one.isBlank()) {
        out.println(first ? ".SH NOTES" : ".PP");
        out.println(line(one.strip()));
        first = false;
      }
    }
    Path more = Path.of("packaging", "man", name + "." + section);
    if (Files.exists(more)) {
      out.print(Files.readString(more));
    }
    out.println(".SH SEE ALSO");
    out.println("\\fBkvtierd\\fR(8), \\fBkvtier\\fR(1), \\fBkvtier.yaml\\fR(5)");
  }

  private static String synopsis(CommandSpec command) {
    StringBuilder words = new StringBuilder();
    if (!command.options().isEmpty()) {
      words.append(" [\\fIOPTION\\fR]...");
    }
    for (PositionalParamSpec one : command.positionalParameters()) {
      String label = " \\fI" + roff(one.paramLabel()) + "\\fR";
      words.append(one.required() ? label : " [" + label.strip() + "]");
      if (one.arity().max() > 1 || one.index().max() > one.index().min()) {
        words.append("...");
      }
    }
    if (!command.subcommands().isEmpty()) {
      boolean isNeeded = !(command.userObject() instanceof Callable);
      words.append(isNeeded ? " \\fICOMMAND\\fR" : " [\\fICOMMAND\\fR]");
    }
    return words.toString();
  }

  private static void entry(PrintWriter out, String title, ArgSpec argument) {
    out.println(".TP");
    out.println(title);
    out.println(line(String.join(" ", texts(argument.description()))));
  }

  /** Without picocli's markup for colours. */
  private static List<String> texts(String[] lines) {
    List<String> plain = new ArrayList<>();
    for (String one : lines) {
      plain.add(CommandLine.Help.Ansi.OFF.string(one.formatted()));
    }
    return plain;
  }

  private static String firstSentence(String text) {
    int end = text.indexOf(". ");
    String sentence = end < 0 ? text : text.substring(0, end);
    return sentence.endsWith(".") ? sentence.substring(0, sentence.length() - 1) : sentence;
  }

  /** A line of text, none of which is a request of roff. */
  private static String line(String text) {
    String escaped = roff(text);
    return escaped.startsWith(".") || escaped.startsWith("'") ? "\\&" + escaped : escaped;
  }

  private static String roff(String text) {
    return text.replace("\\", "\\e").replace("-", "\\-");
  }
}
