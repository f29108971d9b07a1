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
import java.util.Set;
import java.util.TreeSet;

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
        putOnce(made.tenantOfUser, id, number, user, "user", "tenants");
        made.users.put(id, Role.WRITE);
      }
      for (String group : tenant.groups()) {
        int id = resolve(group, Path.of("/etc/group"), "group", "tenants");
        putOnce(made.tenantOfGroup, id, number, group, "group", "tenants");
        made.groups.put(id, Role.WRITE);
      }
    }
    // What stands there goes before what a tenant's users may.
    made.users.putAll(roles(userItems, Path.of("/etc/passwd"), "user"));
    made.groups.putAll(roles(groupItems, Path.of("/etc/group"), "group"));
    made.users.put(0, Role.ADMIN);
    made.users.put(ownUser, Role.ADMIN);
    return made;
  }

  private static Map<Integer, Role> roles(List<String> items, Path database, String kind)
      throws IOException {
    Map<Integer, Role> roles = new HashMap<>();
    String key = "socket." + kind + "s";
    for (String item : items) {
      int colon = item.indexOf(':');
      Role role = colon < 0 ? Role.WRITE : Role.ofWord(item.substring(colon + 1));
      if (role == null) {
        throw new IOException(
            key + " has '" + item + "', expected a role behind the colon: read, write or admin");
      }
      String name = colon < 0 ? item : item.substring(0, colon);
      putOnce(roles, resolve(name, database, kind, key), role, name, kind, key);
    }
    return roles;
  }

  /** One of whom two things are said, once by name and once by number, is not guessed about. */
  private static <T> void putOnce(
      Map<Integer, T> what, int id, T value, String name, String kind, String key)
      throws IOException {
    if (what.put(id, value) != null) {
      throw new IOException(
          key
              + " names "
              + kind
              + " '"
              + name
              + "' twice, its number being "
              + Integer.toUnsignedString(id)
              + ": expected each once");
    }
  }

  private static int resolve(String name, Path database, String kind, String key)
      throws IOException {
    if (!name.isEmpty() && name.chars().allMatch(c -> c >= '0' && c <= '9')) {
      return number(name, key + " has '" + name + "'");
    }
    for (String line : Files.readAllLines(database)) {
      String[] fields = line.split(":", -1);
      if (fields.length > 2 && fields[0].equals(name)) {
        return number(fields[2], database + " has " + kind + " '" + name + "' as " + fields[2]);
      }
    }
    throw new IOException(key + " names " + kind + " '" + name + "', which is not in " + database);
  }

  /** Ids take all 32 bits; the kernel's records hold them as ints. */
  private static int number(String id, String where) throws IOException {
    try {
      return Integer.parseUnsignedInt(id);
    } catch (NumberFormatException e) {
      throw new IOException(where + ", expected a name or a number from 0 to 4294967295", e);
    }
  }

  /** What a peer may; its supplementary groups count. Of role NONE where it may not connect. */
  public Grant grantOf(PeerCredentials peer) {
    Rules now = rules;
    String name = "user " + Integer.toUnsignedString(peer.uid());
    Role role = now.users.get(peer.uid());
    Integer tenant = now.tenantOfUser.get(peer.uid());
    // Who runs the daemon is of no tenant for being in a tenant's group.
    boolean isOfGroups = tenant == null && peer.uid() != 0 && peer.uid() != ownUser;
    if (isOfGroups && isTenantUnknown(now, peer)) {
      // As one of no tenant it would have the blocks of others.
      return new Grant(name, Role.NONE, Grant.NO_TENANT);
    }
    if ((role == null && !now.groups.isEmpty()) || (isOfGroups && !now.tenantOfGroup.isEmpty())) {
      List<Integer> groups = groupsOf(peer);
      Role ofGroups = Role.NONE;
      for (int group : groups) {
        Role one = now.groups.getOrDefault(group, Role.NONE);
        ofGroups = one.covers(ofGroups) ? one : ofGroups;
      }
      role = role == null ? ofGroups : role;
      Set<Integer> ofTenants = isOfGroups ? tenantsOf(now, groups) : Set.of();
      tenant = ofTenants.isEmpty() ? tenant : ofTenants.iterator().next();
      if (ofTenants.size() > 1) {
        return new Grant(name, Role.NONE, Grant.NO_TENANT);
      }
    }
    return new Grant(
        name, role == null ? Role.NONE : role, tenant == null ? Grant.NO_TENANT : tenant);
  }

  /** Why a peer may not connect, in words. */
  public String refusal(PeerCredentials peer) {
    Rules now = rules;
    String user = "user " + Integer.toUnsignedString(peer.uid());
    if (!now.tenantOfUser.containsKey(peer.uid()) && isTenantUnknown(now, peer)) {
      return user
          + " may be in a group of a tenant's, and the kernel does not tell its groups"
          + " (SO_PEERGROUPS): name it among the users of its tenant (tenants)";
    }
    Set<Integer> ofTenants = tenantsOf(now, groupsOf(peer));
    if (!now.tenantOfUser.containsKey(peer.uid()) && ofTenants.size() > 1) {
      List<String> names =
          ofTenants.stream().map(number -> tenants.get(number - 1).name()).toList();
      return user
          + " is in groups of several tenants, "
          + String.join(" and ", names)
          + ": name it among the users of one of them (tenants)";
    }
    if (peer.groups() == null && !now.groups.isEmpty()) {
      return user
          + " may not use this daemon, and of its groups the kernel tells but one (SO_PEERGROUPS):"
          + " add it to socket.users";
    }
    return user + " may not use this daemon: add it to socket.users, or its group to socket.groups";
  }

  private static Set<Integer> tenantsOf(Rules rules, List<Integer> groups) {
    Set<Integer> found = new TreeSet<>();
    for (int group : groups) {
      Integer tenant = rules.tenantOfGroup.get(group);
      if (tenant != null) {
        found.add(tenant);
      }
    }
    return found;
  }

  private static boolean isTenantUnknown(Rules rules, PeerCredentials peer) {
    return peer.groups() == null && !rules.tenantOfGroup.isEmpty();
  }

  private static List<Integer> groupsOf(PeerCredentials peer) {
    List<Integer> all = new ArrayList<>();
    all.add(peer.gid());
    List<Integer> supplementary = peer.groups();
    if (supplementary != null) {
      all.addAll(supplementary);
    }
    return all;
  }
}
