package io.kvtier.client.internal.session;

import io.kvtier.protocol.SocketPaths;
import io.kvtier.protocol.linux.UnixSocket;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/** The users whose daemon a client accepts: it gives blocks to that daemon and reads its bytes. */
public final class DaemonUser {
  static final String VARIABLE = "KVTIER_DAEMON_USER";

  private static final int ROOT = 0;
  private static final int WRITABLE_BY_OTHERS = 0022;
  private static final int LINKS_MAX = 40;
  private static final int OVERFLOW_DEFAULT = 65534;

  private final int own;

  /** The users that are named; null: nobody names any. */
  private final @Nullable Set<Integer> expected;

  private DaemonUser(int own, @Nullable Set<Integer> expected) {
    this.own = own;
    this.expected = expected;
  }

  /**
   * The users whose daemon a client accepts.
   *
   * @param named names or numbers, with commas between them; null: what the environment names
   * @throws IllegalArgumentException when this machine does not know such a user
   */
  public static DaemonUser of(@Nullable String named) {
    String where = named == null ? VARIABLE : "daemonUser";
    String items = named == null ? System.getenv(VARIABLE) : named;
    if (items == null || (named == null && items.isEmpty())) {
      return new DaemonUser(SocketPaths.uid(), null);
    }
    Set<Integer> users = new TreeSet<>(Integer::compareUnsigned);
    for (String item : items.split(",", -1)) {
      users.add(number(item.strip(), where));
    }
    return new DaemonUser(SocketPaths.uid(), users);
  }

  private static int number(String item, String where) {
    try {
      if (!item.isEmpty() && item.chars().allMatch(c -> c >= '0' && c <= '9')) {
        return Integer.parseUnsignedInt(item);
      }
      for (String line : Files.readAllLines(Path.of("/etc/passwd"))) {
        String[] fields = line.split(":", -1);
        if (fields.length > 2 && fields[0].equals(item)) {
          return Integer.parseUnsignedInt(fields[2]);
        }
      }
    } catch (IOException | NumberFormatException e) {
      throw unknown(item, where, e);
    }
    throw unknown(item, where, null);
  }

  private static IllegalArgumentException unknown(
      String item, String where, @Nullable Exception cause) {
    return new IllegalArgumentException(
        where
            + " names user '"
            + item
            + "', which this machine does not know; expected names or numbers, with commas between"
            + " them",
        cause);
  }

  /**
   * Why what listens at the other end is not to be trusted with blocks; null where it is. The
   * credentials are those of the process that listens, as they were when it began to.
   */
  @Nullable String whyNot(UnixSocket connected, Path path) throws IOException {
    int peer = connected.peerCredentials().uid();
    if (peer == own || peer == ROOT || (expected != null && expected.contains(peer))) {
      return null;
    }
    String user = Integer.toUnsignedString(peer);
    if (expected != null) {
      return "user " + user + " runs it; expected user " + wantedWords() + ": see " + VARIABLE;
    }
    if (peer == overflowUser()) {
      return "the user who runs it has no number in this user namespace (it shows as "
          + user
          + "); expected user "
          + wantedWords()
          + ": if you trust all who can put a socket there, set "
          + VARIABLE
          + "="
          + user;
    }
    if (wasPutThereFor(path, peer)) {
      return null;
    }
    return "user "
        + user
        + " runs it, where others could have put a socket; expected user "
        + wantedWords()
        + ": if that is who runs your daemon, set "
        + VARIABLE
        + "="
        + user;
  }

  private String wantedWords() {
    Set<Integer> wanted = new TreeSet<>(Integer::compareUnsigned);
    wanted.add(own);
    wanted.add(ROOT);
    if (expected != null) {
      wanted.addAll(expected);
    }
    return String.join(" or ", wanted.stream().map(Integer::toUnsignedString).toList());
  }

  private static int overflowUser() {
    try {
      return Integer.parseUnsignedInt(
          Files.readString(Path.of("/proc/sys/kernel/overflowuid")).strip());
    } catch (IOException | NumberFormatException e) {
      return OVERFLOW_DEFAULT;
    }
  }

  /**
   * Whether only root, this user and the peer could have put a socket at a path, the peer in a
   * folder that it was given. So it is with a service's folder below /run, and not with one in
   * /tmp, which anybody can make.
   */
  private boolean wasPutThereFor(Path path, int peer) {
    Path at = Path.of("/");
    Deque<Path> left = new ArrayDeque<>();
    path.toAbsolutePath().forEach(left::add);
    int links = 0;
    try {
      while (!left.isEmpty()) {
        int owner = (int) Files.getAttribute(at, "unix:uid", LinkOption.NOFOLLOW_LINKS);
        if (owner != ROOT && owner != own) {
          return owner == peer;
        }
        int mode = (int) Files.getAttribute(at, "unix:mode", LinkOption.NOFOLLOW_LINKS);
        if ((mode & WRITABLE_BY_OTHERS) != 0) {
          return false;
        }
        Path part = left.pop();
        if (part.toString().equals(".")) {
          continue;
        }
        if (part.toString().equals("..")) {
          at = Objects.requireNonNullElse(at.getParent(), at);
          continue;
        }
        Path entry = at.resolve(part);
        if (!Files.isSymbolicLink(entry)) {
          at = entry;
          continue;
        }
        if (++links > LINKS_MAX) {
          return false;
        }
        Path target = Files.readSymbolicLink(entry);
        at = Objects.requireNonNullElse(target.getRoot(), at);
        Deque<Path> parts = new ArrayDeque<>();
        target.forEach(parts::add);
        parts.descendingIterator().forEachRemaining(left::push);
      }
      return true;
    } catch (IOException e) {
      return false;
    }
  }
}
