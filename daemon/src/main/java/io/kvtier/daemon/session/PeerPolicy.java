package io.kvtier.daemon.session;

import io.kvtier.protocol.linux.UnixSocket.PeerCredentials;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Who may open a session: root, the daemon's own user, and the users and groups of the
 * configuration.
 */
public final class PeerPolicy {
  /** Who may, in numbers; replaced as one. */
  private record Allowed(Set<Integer> users, Set<Integer> groups) {}

  private final int ownUser;
  private volatile Allowed allowed;

  /**
   * A policy.
   *
   * @throws IOException naming a user or group that this machine does not know
   */
  public PeerPolicy(int ownUser, List<String> users, List<String> groups) throws IOException {
    this.ownUser = ownUser;
    this.allowed = resolve(users, groups);
  }

  /**
   * Other users and groups for the sessions to come, from any thread; those that are open stay.
   *
   * @throws IOException naming a user or group that this machine does not know; then nothing
   *     changes
   */
  public void change(List<String> newUsers, List<String> newGroups) throws IOException {
    allowed = resolve(newUsers, newGroups);
  }

  private Allowed resolve(List<String> userNames, List<String> groupNames) throws IOException {
    Set<Integer> users = new HashSet<>();
    Set<Integer> groups = new HashSet<>();
    users.add(0);
    users.add(ownUser);
    for (String user : userNames) {
      users.add(resolve(user, Path.of("/etc/passwd"), "user"));
    }
    for (String group : groupNames) {
      groups.add(resolve(group, Path.of("/etc/group"), "group"));
    }
    return new Allowed(users, groups);
  }

  private static int resolve(String name, Path database, String kind) throws IOException {
    if (name.chars().allMatch(Character::isDigit)) {
      return number(name);
    }
    for (String line : Files.readAllLines(database)) {
      String[] fields = line.split(":", -1);
      if (fields.length > 2 && fields[0].equals(name)) {
        return number(fields[2]);
      }
    }
    throw new IOException(
        "socket." + kind + "s names " + kind + " '" + name + "', which is not in " + database);
  }

  /** Ids take all 32 bits; the kernel's records hold them as ints. */
  private static int number(String id) {
    return Integer.parseUnsignedInt(id);
  }

  /** Whether the peer may connect; its supplementary groups count. */
  public boolean allows(PeerCredentials peer) {
    Allowed now = allowed;
    Set<Integer> groups = now.groups;
    if (now.users.contains(peer.uid()) || groups.contains(peer.gid())) {
      return true;
    }
    if (groups.isEmpty()) {
      return false;
    }
    try {
      for (String line : Files.readAllLines(Path.of("/proc/" + peer.pid() + "/status"))) {
        if (line.startsWith("Groups:")) {
          for (String group : line.substring("Groups:".length()).trim().split("\\s+", -1)) {
            if (!group.isEmpty() && groups.contains(number(group))) {
              return true;
            }
          }
        }
      }
    } catch (IOException e) {
      return false; // the peer has gone already
    }
    return false;
  }
}
