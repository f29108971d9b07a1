package io.kvtier.cli;

import com.eclipsesource.json.JsonObject;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.access.Token;
import io.kvtier.protocol.access.TokenLine;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.GroupPrincipal;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Makes the tokens that network callers bring. */
@Command(
    name = "token",
    mixinStandardHelpOptions = true,
    description = {
      "Makes tokens for network callers.",
      "The file that access.tokens names holds one line for each token, with its hash. The daemon"
          + " reads the file again when it changes. Delete a line to revoke its token."
    },
    subcommands = {TokenCommand.MakeCommand.class, TokenCommand.HashCommand.class})
final class TokenCommand implements Runnable {
  @Spec private CommandSpec spec;

  @Override
  public void run() {
    throw new ParameterException(
        spec.commandLine(), "'kvtier token' needs a subcommand: make or hash");
  }

  /** What a token's line says besides its hash. */
  @Command(mixinStandardHelpOptions = true)
  abstract static class LineCommand implements Callable<Integer> {
    @Spec private CommandSpec spec;

    @Option(
        names = "--name",
        required = true,
        paramLabel = "NAME",
        description = "Name of the token's owner: letters, digits, '.', '_', '@' or '-'.")
    private String name = "";

    @Option(
        names = "--role",
        required = true,
        paramLabel = "ROLE",
        description = "Role of the token: read, write or admin.")
    private String role = "";

    @Option(
        names = "--tenant",
        paramLabel = "TENANT",
        defaultValue = "",
        description =
            "Tenant whose blocks the token gives access to. Default: blocks of no tenant.")
    private String tenant = "";

    @Option(
        names = "--expires",
        paramLabel = "WHEN",
        defaultValue = "never",
        description =
            "End of the token: a date, a time such as 2027-01-31T00:00:00Z, days such as 90d, or"
                + " never. Default: ${DEFAULT-VALUE}.")
    private String expires = "never";

    @Option(names = "--json", description = "Prints JSON.")
    private boolean json;

    /** Answers with one text, or in JSON with more around it. */
    final void answer(String text, JsonObject inJson) {
      spec.commandLine().getOut().println(json ? inJson.toString() : text);
      spec.commandLine().getOut().flush();
    }

    /** What is no part of the answer. */
    final void say(String text) {
      spec.commandLine().getErr().println(text);
      spec.commandLine().getErr().flush();
    }

    final boolean isJson() {
      return json;
    }

    final TokenLine line(Token token) {
      Role parsed = Role.ofWord(role);
      if (parsed == null || parsed == Role.NONE) {
        throw new Failure(Failure.USAGE, "--role is '" + role + "', expected read, write or admin");
      }
      requireName("--name", name);
      if (!tenant.isEmpty()) {
        requireName("--tenant", tenant);
      }
      return TokenLine.of(token, name, parsed, tenant, end(), new SecureRandom());
    }

    private static void requireName(String option, String name) {
      if (!TokenLine.isName(name)) {
        throw new Failure(
            Failure.USAGE,
            option + " is '" + name + "', expected letters, digits, '.', '_', '@' or '-'");
      }
    }

    private @Nullable Instant end() {
      if (expires.equals("never")) {
        return null;
      }
      try {
        if (expires.matches("[0-9]{1,6}d")) {
          int days = Integer.parseInt(expires, 0, expires.length() - 1, 10);
          return Instant.now().truncatedTo(ChronoUnit.SECONDS).plus(days, ChronoUnit.DAYS);
        }
        return expires.indexOf('T') < 0
            ? LocalDate.parse(expires).atStartOfDay(ZoneOffset.UTC).toInstant()
            : Instant.parse(expires);
      } catch (DateTimeException e) {
        throw new Failure(
            Failure.USAGE,
            "--expires is '"
                + expires
                + "', expected a date such as 2027-01-31, a time such as 2027-01-31T00:00:00Z,"
                + " days such as 90d, or never");
      }
    }
  }

  /** A new one. */
  @Command(
      name = "make",
      description = {
        "Prints a new token. It is not stored: it can't be shown again.",
        "The token's line is added to the file, or printed to standard error."
      })
  static final class MakeCommand extends LineCommand {
    @Option(
        names = "--file",
        paramLabel = "FILE",
        description = "The file that access.tokens names. If it does not exist, it is made.")
    private @Nullable Path file;

    @Override
    public Integer call() {
      Token token = Token.make(new SecureRandom());
      String line = line(token).text();
      Path target = file;
      if (target != null) {
        append(target, line);
      } else if (!isJson()) {
        say(line);
      }
      JsonObject json = new JsonObject().add("token", token.secretText()).add("line", line);
      answer(token.secretText(), target == null ? json : json.add("file", target.toString()));
      return 0;
    }

    private void append(Path file, String line) {
      try {
        try {
          Files.createFile(
              file,
              PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-r-----")));
          handOver(file);
        } catch (FileAlreadyExistsException e) {
          // One more line in it.
        }
        String before = Files.readString(file);
        String separator = before.isEmpty() || before.endsWith("\n") ? "" : "\n";
        Files.writeString(file, separator + line + "\n", StandardOpenOption.APPEND);
      } catch (IOException e) {
        throw new Failure(
            Failure.NEGATIVE, "'" + file + "' can't be written, so no token was made: " + e);
      }
    }

    /** A new file gets its folder's group, which may be the daemon's; what root has is told. */
    private void handOver(Path file) throws IOException {
      Path folder = file.toAbsolutePath().getParent();
      PosixFileAttributeView view = Files.getFileAttributeView(file, PosixFileAttributeView.class);
      GroupPrincipal group =
          Files.readAttributes(folder == null ? file : folder, PosixFileAttributes.class).group();
      try {
        view.setGroup(group);
      } catch (FileSystemException e) {
        // It has the group of who makes it.
      }
      PosixFileAttributes made = view.readAttributes();
      if (made.owner().getName().equals("root") && made.group().getName().equals("root")) {
        say(
            "'"
                + file
                + "' can be read by root only: make it readable for the daemon's user, for example"
                + " with chgrp kvtier "
                + file);
      }
    }
  }

  /** The line of one that is there. */
  @Command(
      name = "hash",
      description =
          "Reads a token of 'kvtier token make' from standard input, and prints its line for the"
              + " file of access.tokens.")
  static final class HashCommand extends LineCommand {
    @Override
    public Integer call() throws IOException {
      // Not an argument: those stand in the list of processes, and in the shell's history.
      BufferedReader in =
          new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
      String text = in.readLine();
      Token token = text == null ? null : Token.of(text.strip());
      if (token == null) {
        throw new Failure(
            Failure.USAGE, "standard input has no token: expected one line that begins with kvt_");
      }
      String line = line(token).text();
      answer(line, new JsonObject().add("line", line));
      return 0;
    }
  }
}
