package io.kvtier.daemon.access;

import io.kvtier.protocol.Counted;
import io.kvtier.protocol.access.Token;
import io.kvtier.protocol.access.TokenLine;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The tokens that are valid now: a file of {@link TokenLine}s, read again when it changes. A file
 * that can't be read, or has a mistake, changes nothing: the tokens before stay valid, and the log
 * says why. From any thread.
 */
final class TokenFile {
  private static final Logger LOG = LoggerFactory.getLogger(TokenFile.class);
  private static final long LOOK_EVERY_NS = 1_000_000_000L;
  private static final long BYTES_MAX = 1 << 20;

  private record Entry(TokenLine line, Grant grant) {}

  private final Path file;
  private final List<String> tenants;
  private final Supplier<Instant> time;
  private final LongSupplier clock;
  private volatile Map<String, Entry> byId;
  private volatile long lookAgainNs;
  private FileStamp stamp;
  private String problem = "";

  /**
   * Reads the file.
   *
   * @param tenants the names of all tenants, each at its number
   * @param clock in ns, for how often the file is looked at
   * @throws IOException naming the file, the line and what is wrong
   */
  TokenFile(Path file, List<String> tenants, Supplier<Instant> time, LongSupplier clock)
      throws IOException {
    this.file = file;
    this.tenants = tenants;
    this.time = time;
    this.clock = clock;
    stamp = FileStamp.of(file);
    byId = read();
    lookAgainNs = clock.getAsLong() + LOOK_EVERY_NS;
  }

  private Map<String, Entry> read() throws IOException {
    Map<String, Entry> read = new HashMap<>();
    int number = 0;
    for (String line : lines()) {
      number++;
      String text = line.strip();
      if (text.isEmpty() || text.startsWith("#")) {
        continue;
      }
      try {
        TokenLine one = TokenLine.parse(text);
        int tenant = one.tenant().isEmpty() ? Grant.NO_TENANT : tenants.indexOf(one.tenant());
        if (tenant < 0) {
          throw new IllegalArgumentException(
              "tenant is '" + one.tenant() + "', which is none of tenants: " + tenants);
        }
        if (read.put(one.id(), new Entry(one, new Grant(one.name(), one.role(), tenant))) != null) {
          throw new IllegalArgumentException("id " + one.id() + " stands there already");
        }
      } catch (IllegalArgumentException e) {
        throw new IOException(
            "access.tokens '" + file + "', line " + number + ": " + e.getMessage(), e);
      }
    }
    return Map.copyOf(read);
  }

  private List<String> lines() throws IOException {
    try {
      Set<PosixFilePermission> permissions = Files.getPosixFilePermissions(file);
      if (permissions.contains(PosixFilePermission.OTHERS_WRITE)) {
        throw new IOException(
            "access.tokens '"
                + file
                + "' can be written by everybody, who could make tokens of their own: chmod o-w");
      }
      if (Files.size(file) > BYTES_MAX) {
        throw new IOException(
            "access.tokens '" + file + "' has more than 1 MiB; is it the right file?");
      }
      return Files.readAllLines(file, StandardCharsets.UTF_8);
    } catch (AccessDeniedException e) {
      throw new IOException(
          "access.tokens '"
              + file
              + "' can't be read by user '"
              + System.getProperty("user.name")
              + "', who runs the daemon: give it the file, such as with chgrp and chmod g+r, and"
              + " its folders",
          e);
    } catch (NoSuchFileException e) {
      throw new IOException(
          "access.tokens '"
              + file
              + "' does not exist; make it with: kvtier token make --name NAME --role ROLE --file "
              + file,
          e);
    }
  }

  /** Whom a token stands for; null for one that is not valid. */
  @Nullable Grant grantOf(String text) {
    if (clock.getAsLong() - lookAgainNs >= 0) {
      look();
    }
    Token token = Token.of(text);
    Entry entry = token == null ? null : byId.get(token.id());
    return token != null && entry != null && entry.line.accepts(token, time.get())
        ? entry.grant
        : null;
  }

  private synchronized void look() {
    if (clock.getAsLong() - lookAgainNs < 0) {
      return;
    }
    lookAgainNs = clock.getAsLong() + LOOK_EVERY_NS;
    FileStamp now = FileStamp.of(file);
    if (now.equals(stamp)) {
      return;
    }
    try {
      byId = read();
      stamp = now;
      problem = "";
      LOG.info("{} in '{}'", Counted.of(byId.size(), "token"), file);
    } catch (IOException e) {
      // Looked at again: what is mended by other permissions alone has the same stamp.
      String found = String.valueOf(e.getMessage());
      if (!found.equals(problem)) {
        problem = found;
        LOG.error(
            "the file of tokens can't be used and the tokens read before stay valid: {}", found);
      }
    }
  }
}
