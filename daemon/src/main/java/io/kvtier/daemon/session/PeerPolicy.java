package io.kvtier.daemon.session;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.config.KvtierdConfig.SocketConfig;
import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.linux.UnixSocket.PeerCredentials;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Who may open a session, and what it may: root and the daemon's own user may everything, the users
 * and groups of the configuration what stands there, and those of a tenant are of that tenant. What
 * is said of a user goes before what is said of a group.
 */
public final class PeerPolicy {
  /** In numbers; replaced as one. */
  private record Rules(
      Map<Integer, Role> users,
      Map<Integer, Role> groups,
      Map<Integer, Integer> tenantOfUser,
      Map<Integer, Integer> tenantOfGroup) {}

  private final int ownUser;
  private final List<TenantConfig> tenants;
  private volatile Rules rules;

  /**
   * A policy. Users and groups of a tenant may connect without being named for the socket again;
   * where they are, what stands there is what they may.
   *
   * @throws IOException naming a user or group that this machine does not know
   */
  public PeerPolicy(int ownUser, SocketConfig socket, List<TenantConfig> tenants)
      throws IOException {
    this.ownUser = ownUser;
    this.tenants = List.copyOf(tenants);
    this.rules = rules(socket.users(), socket.groups());
  }

  /**
   * Other users and groups for the sessions to come, from any thread; those that are open stay.
   *
   * @throws IOException naming a user or group that this machine does not know; then nothing
   *     changes
   */
  public void change(List<String> users, List<String> groups) throws IOException {
    rules = rules(users, groups);
  }

  private Rules rules(List<String> userItems, List<String> groupItems) throws IOException {
    Rules made = new Rules(new HashMap<>(), new HashMap<>(), new HashMap<>(), new HashMap<>());
    int number = Grant.NO_TENANT;
    for (TenantConfig tenant : tenants) {
      number++;
      for (String user : tenant.users()) {
        int id = resolve(user, Path.of("/etc/passwd"), "user", "tenants");
        made.tenantOfUser.put(id, number);
        made.users.put(id, Role.WRITE);
      }
      for (String group : tenant.groups()) {
        int id = resolve(group, Path.of("/etc/group"), "group", "tenants");
        made.tenantOfGroup.put(id, number);
        made.groups.put(id, Role.WRITE);
      }
    }
    put(made.users, userItems, Path.of("/etc/passwd"), "user");
    put(made.groups, groupItems, Path.of("/etc/group"), "group");
    made.users.put(0, Role.ADMIN);
    made.users.put(ownUser, Role.ADMIN);
    return made;
  }

  private static void put(Map<Integer, Role> roles, List<String> items, Path database, String kind)
      throws IOException {
    String key = "socket." + kind + "s";
    for (String item : items) {
      int colon = item.indexOf(':');
      Role role = colon < 0 ? Role.WRITE : Role.ofWord(item.substring(colon + 1));
      if (role == null) {
        throw new IOException(
            key + " has '" + item + "', expected a role behind the colon: read, write or admin");
      }
      String name = colon < 0 ? item : item.substring(0, colon);
      roles.put(resolve(name, database, kind, key), role);
    }
  }

  private static int resolve(String name, Path database, String kind, String key)
      throws IOException {
    if (!name.isEmpty() && name.chars().allMatch(Character::isDigit)) {
      return number(name);
    }
    for (String line : Files.readAllLines(database)) {
      String[] fields = line.split(":", -1);
      if (fields.length > 2 && fields[0].equals(name)) {
        return number(fields[2]);
      }
    }
    throw new IOException(key + " names " + kind + " '" + name + "', which is not in " + database);
  }

  /** Ids take all 32 bits; the kernel's records hold them as ints. */
  private static int number(String id) {
    return Integer.parseUnsignedInt(id);
  }

  /** What a peer may; its supplementary groups count. Of role NONE where it may not connect. */
  public Grant grantOf(PeerCredentials peer) {
    Rules now = rules;
    String name = "user " + Integer.toUnsignedString(peer.uid());
    Role role = now.users.get(peer.uid());
    Integer tenant = now.tenantOfUser.get(peer.uid());
    if ((role == null && !now.groups.isEmpty())
        || (tenant == null && !now.tenantOfGroup.isEmpty())) {
      Role ofGroups = Role.NONE;
      for (int group : groupsOf(peer)) {
        Role one = now.groups.getOrDefault(group, Role.NONE);
        ofGroups = one.covers(ofGroups) ? one : ofGroups;
        tenant = tenant == null ? now.tenantOfGroup.get(group) : tenant;
      }
      role = role == null ? ofGroups : role;
    }
    return new Grant(
        name, role == null ? Role.NONE : role, tenant == null ? Grant.NO_TENANT : tenant);
  }

  private static List<Integer> groupsOf(PeerCredentials peer) {
    List<Integer> all = new ArrayList<>();
    all.add(peer.gid());
    try {
      for (String line : Files.readAllLines(Path.of("/proc/" + peer.pid() + "/status"))) {
        if (line.startsWith("Groups:")) {
          for (String group : line.substring("Groups:".length()).trim().split("\\s+", -1)) {
            if (!group.isEmpty()) {
              all.add(number(group));
            }
          }
        }
      }
    } catch (IOException e) {
      // The peer has gone already.
    }
    return all;
  }
}
