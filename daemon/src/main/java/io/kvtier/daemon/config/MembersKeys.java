package io.kvtier.daemon.config;

import io.kvtier.daemon.config.KvtierdConfig.MembersConfig;
import io.kvtier.daemon.member.Discovery;
import io.kvtier.tiers.node.NodeAddress;
import java.net.InetAddress;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Reads the keys of {@code nodes} that say how nodes find each other. */
final class MembersKeys {
  private static final String MEMBERSHIP = "nodes.membership";
  private static final Set<String> ANY_ADDRESS = Set.of("0.0.0.0", "::", "0:0:0:0:0:0:0:0");
  private static final int NAME_CHARS_MAX = 64;

  private enum Kind {
    STATIC,
    LIST,
    DNS,
    MULTICAST
  }

  private final KeyReader keys;
  private final AddressKeys addresses;

  MembersKeys(KeyReader keys, AddressKeys addresses) {
    this.keys = keys;
    this.addresses = addresses;
  }

  /** How nodes find each other; null: they are in a list, or something is wrong. */
  @Nullable MembersConfig read() {
    Kind kind = keys.get(MEMBERSHIP, MembersKeys::kind, "static, list, dns or multicast");
    List<NodeAddress> seeds = addresses.some("nodes.seeds");
    if (keys.isMistaken(MEMBERSHIP)) {
      return null;
    }
    requireNone("nodes.seeds", seeds.isEmpty(), kind, Kind.LIST);
    requireNone("nodes.dns_name", keys.text("nodes.dns_name").isEmpty(), kind, Kind.DNS);
    if (kind == Kind.STATIC) {
      return null;
    }
    String because = ", because nodes.membership is " + keys.text(MEMBERSHIP);
    keys.require(
        "nodes.peers",
        keys.list("nodes.peers").isEmpty(),
        "nothing" + because + "; or set nodes.membership: static");
    NodeAddress listen =
        address("nodes.member_listen", "the HOST:PORT where members connect" + because);
    NodeAddress advertised = advertised(because);
    String cluster = keys.text("nodes.cluster");
    keys.require(
        "nodes.cluster",
        !cluster.isEmpty() && cluster.length() <= NAME_CHARS_MAX,
        "a name of 1 to " + NAME_CHARS_MAX + " characters");
    Discovery discovery = discovery(kind, seeds, listen, because);
    return listen == null || advertised == null || discovery == null
        ? null
        : new MembersConfig(discovery, listen, advertised, cluster);
  }

  private static Kind kind(String text) {
    for (Kind one : Kind.values()) {
      if (one.name().toLowerCase(Locale.ROOT).equals(text)) {
        return one;
      }
    }
    throw new IllegalArgumentException();
  }

  private void requireNone(String key, boolean isEmpty, Kind kind, Kind wanted) {
    keys.require(
        key,
        isEmpty || kind == wanted,
        "nothing, because nodes.membership is "
            + keys.text(MEMBERSHIP)
            + "; or set nodes.membership: "
            + wanted.name().toLowerCase(Locale.ROOT));
  }

  /** An address with a port that others can know. */
  private @Nullable NodeAddress address(String key, String expected) {
    NodeAddress address = addresses.one(key);
    keys.require(key, address != null && address.port() != 0, expected + ", and no port 0");
    return keys.isMistaken(key) ? null : address;
  }

  private @Nullable NodeAddress advertised(String because) {
    NodeAddress listen =
        address("nodes.listen", "the HOST:PORT where this node serves others" + because);
    if (!keys.text("nodes.advertise").isEmpty()) {
      NodeAddress advertised =
          address("nodes.advertise", "the HOST:PORT by which others reach nodes.listen");
      keys.require(
          "nodes.advertise",
          advertised == null || !ANY_ADDRESS.contains(advertised.host()),
          "an address of this node that others reach");
      return advertised;
    }
    keys.require(
        "nodes.advertise",
        listen == null || !ANY_ADDRESS.contains(listen.host()),
        "the HOST:PORT by which others reach nodes.listen, because that is "
            + keys.text("nodes.listen"));
    return listen;
  }

  private @Nullable Discovery discovery(
      Kind kind, List<NodeAddress> seeds, @Nullable NodeAddress listen, String because) {
    if (kind == Kind.LIST) {
      keys.require(
          "nodes.seeds",
          !seeds.isEmpty() || keys.isMistaken("nodes.seeds"),
          "nodes.member_listen of one or more nodes" + because);
      return new Discovery.Seeds(seeds);
    }
    if (kind == Kind.DNS) {
      String name = keys.text("nodes.dns_name");
      keys.require(
          "nodes.dns_name", !name.isEmpty(), "a name with the addresses of all nodes" + because);
      return listen == null ? null : new Discovery.Dns(name, listen.port());
    }
    NodeAddress group = address("nodes.multicast", "the HOST:PORT of a multicast group");
    keys.require(
        "nodes.multicast",
        group == null || isMulticast(group.host()),
        "the HOST:PORT of a multicast group, such as 239.192.0.77:7077");
    return group == null ? null : new Discovery.Multicast(group);
  }

  private static boolean isMulticast(String host) {
    try {
      return InetAddress.ofLiteral(host).isMulticastAddress();
    } catch (IllegalArgumentException e) {
      return false;
    }
  }
}
