package io.kvtier.daemon.config;

import io.kvtier.daemon.config.KvtierdConfig.MembersConfig;
import io.kvtier.daemon.config.KvtierdConfig.NodeDirectoryUse;
import io.kvtier.daemon.config.KvtierdConfig.NodeSecurity;
import io.kvtier.daemon.config.KvtierdConfig.NodesConfig;
import io.kvtier.protocol.access.Role;
import io.kvtier.tiers.node.NodeAddress;
import io.kvtier.tiers.node.NodeTier;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** Reads {@code nodes}: where other nodes are, and how they trust each other. */
final class NodesSection {
  private static final int THREADS_MAX = 8;
  private static final int NAME_CHARS_MAX = 64;
  private static final long SEND_BUFFER_MAX = 256 << 20;
  private static final long DIRECTORY_BYTES_MIN = 1 << 20;
  private static final long DIRECTORY_BYTES_MAX = 64L << 30;

  private final KeyReader keys;

  NodesSection(KeyReader keys) {
    this.keys = keys;
  }

  NodesConfig read() {
    AddressKeys addresses = new AddressKeys(keys);
    List<NodeAddress> peers = addresses.some("nodes.peers");
    keys.require(
        "nodes.peers",
        peers.size() <= NodeTier.NUMBERS_MAX,
        "at most " + NodeTier.NUMBERS_MAX + " nodes");
    MembersConfig members = new MembersKeys(keys, addresses).read();
    NodeSecurity security =
        keys.get(
            "nodes.security",
            NodesSection::security,
            "tls_and_tokens, tls_without_tokens or plaintext_without_tokens");
    String name = keys.text("nodes.name");
    keys.require(
        "nodes.name",
        name.length() <= NAME_CHARS_MAX,
        "a name of at most " + NAME_CHARS_MAX + " characters");
    double pushedShare =
        keys.get("nodes.pushed_share", Double::parseDouble, "a fraction such as 0.5");
    keys.require("nodes.pushed_share", pushedShare >= 0 && pushedShare <= 0.9, "0 to 0.9");
    NodesConfig config =
        new NodesConfig(
            name,
            addresses.one("nodes.listen"),
            peers,
            members,
            security,
            keys.text("nodes.certificate_name"),
            file("nodes.ca"),
            file("nodes.token_file"),
            keys.number("nodes.threads", 1, THREADS_MAX),
            keys.number("nodes.connections", 1, 1 << 14),
            keys.positiveDuration("nodes.ask_timeout"),
            keys.positiveDuration("nodes.fetch_timeout"),
            (int) keys.size("nodes.send_buffer", 0, SEND_BUFFER_MAX),
            ucxLibrary(),
            keys.get("nodes.directory", NodesSection::directory, "auto, on or off"),
            keys.size("nodes.directory_bytes", DIRECTORY_BYTES_MIN, DIRECTORY_BYTES_MAX),
            pushedShare,
            keys.get("nodes.tokenless_role", NodesSection::role, "read or write"));
    keys.require(
        "nodes.peers",
        config.directory() != NodeDirectoryUse.OFF || peers.size() <= NodeTier.PEERS_MAX,
        "at most " + NodeTier.PEERS_MAX + " nodes, because nodes.directory is off");
    if (config.isOn()) {
      requireTrust(config);
    }
    return config;
  }

  private @Nullable String ucxLibrary() {
    String library = keys.text("nodes.ucx_library");
    if (!keys.get("nodes.transport", NodesSection::isUcx, "tcp or ucx")) {
      return null;
    }
    keys.require(
        "nodes.ucx_library",
        !library.isEmpty(),
        "the path or the name of libucp, because nodes.transport is ucx");
    return library;
  }

  private static boolean isUcx(String text) {
    return switch (text) {
      case "tcp" -> false;
      case "ucx" -> true;
      default -> throw new IllegalArgumentException();
    };
  }

  private @Nullable Path file(String key) {
    String text = keys.text(key);
    return text.isEmpty() ? null : keys.path(key, text);
  }

  /** Nodes trust nobody by default: what they need for that must be there. */
  private void requireTrust(NodesConfig config) {
    boolean usesTls = config.security() != NodeSecurity.PLAINTEXT_WITHOUT_TOKENS;
    boolean usesTokens = config.security() == NodeSecurity.TLS_AND_TOKENS;
    String otherwise = ", or nodes.security: plaintext_without_tokens";
    if (usesTls && !keys.isMistaken("nodes.security")) {
      keys.require(
          "tls.certificate",
          !keys.text("tls.certificate").isEmpty(),
          "this node's certificate, because nodes.listen or nodes.peers is set" + otherwise);
      keys.require(
          "nodes.ca",
          config.ca() != null,
          "the file of the certificates that signed those of all nodes" + otherwise);
    }
    if (usesTokens && !keys.isMistaken("nodes.security")) {
      keys.require(
          "access.tokens",
          config.listen() == null || !keys.text("access.tokens").isEmpty(),
          "a file of tokens, because nodes.listen is set, or nodes.security: tls_without_tokens");
      keys.require(
          "nodes.token_file",
          !config.readsOthers() || config.tokenFile() != null,
          "the file of the token that this node shows to other nodes, or nodes.security:"
              + " tls_without_tokens");
    }
  }

  private static Role role(String text) {
    return switch (text) {
      case "read" -> Role.READ;
      case "write" -> Role.WRITE;
      default -> throw new IllegalArgumentException();
    };
  }

  private static NodeDirectoryUse directory(String text) {
    for (NodeDirectoryUse one : NodeDirectoryUse.values()) {
      if (one.name().toLowerCase(Locale.ROOT).equals(text)) {
        return one;
      }
    }
    throw new IllegalArgumentException();
  }

  private static NodeSecurity security(String text) {
    for (NodeSecurity one : NodeSecurity.values()) {
      if (one.name().toLowerCase(Locale.ROOT).equals(text)) {
        return one;
      }
    }
    throw new IllegalArgumentException();
  }
}
