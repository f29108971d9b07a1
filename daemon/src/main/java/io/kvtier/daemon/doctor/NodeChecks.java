package io.kvtier.daemon.doctor;

import io.kvtier.daemon.config.KvtierdConfig.MembersConfig;
import io.kvtier.daemon.config.KvtierdConfig.NodeSecurity;
import io.kvtier.daemon.config.KvtierdConfig.NodesConfig;
import io.kvtier.daemon.member.Discovery;
import io.kvtier.tiers.files.ByteSize;
import io.kvtier.tiers.node.NodeAddress;
import io.kvtier.tiers.node.ucx.UcxFabric;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Checks what other nodes need: the port, names, and whether they listen. */
final class NodeChecks {
  private static final String CHECK = "nodes";
  private static final int CONNECT_MS = 2000;

  /** The largest send buffer that a process can ask for, bytes. */
  private static final Path SEND_BUFFER_MAX = Path.of("/proc/sys/net/core/wmem_max");

  private final NodesConfig config;
  private final boolean isRunning;
  private final Path sendBufferMax;

  /**
   * Checks for one configuration.
   *
   * @param isRunning whether a daemon with it runs, and so has the port
   */
  NodeChecks(NodesConfig config, boolean isRunning) {
    this(config, isRunning, SEND_BUFFER_MAX);
  }

  /** Checks with a file that has the kernel's limit of send buffers. */
  NodeChecks(NodesConfig config, boolean isRunning, Path sendBufferMax) {
    this.config = config;
    this.isRunning = isRunning;
    this.sendBufferMax = sendBufferMax;
  }

  List<Finding> findings() {
    List<Finding> findings = new ArrayList<>();
    if (!config.isOn()) {
      findings.add(
          Finding.pass(
              CHECK, "none: nodes.listen and nodes.peers are empty, nodes.membership is static"));
      return findings;
    }
    if (config.security() == NodeSecurity.PLAINTEXT_WITHOUT_TOKENS) {
      findings.add(
          Finding.warn(
              CHECK,
              "nodes.security is plaintext_without_tokens: everybody in the network can read all"
                  + " blocks",
              "set nodes.security to tls_and_tokens, unless all machines in the network may"));
    }
    addSendBuffer(findings);
    String library = config.ucxLibrary();
    if (library != null) {
      addUcx(findings, library);
    }
    NodeAddress listen = config.listen();
    if (listen != null && !isRunning) {
      findings.add(port(listen, "nodes.listen"));
    }
    config.peers().forEach(peer -> findings.add(reach(peer, "nodes.peers")));
    MembersConfig members = config.members();
    if (members != null) {
      if (!isRunning) {
        findings.add(port(members.listen(), "nodes.member_listen"));
      }
      findings.addAll(members(members.discovery()));
    }
    return findings;
  }

  /** Says so if the kernel gives connections a smaller send buffer than is configured. */
  private void addSendBuffer(List<Finding> findings) {
    long most;
    try {
      most = Long.parseLong(Files.readString(sendBufferMax).strip());
    } catch (IOException | NumberFormatException e) {
      return; // in a container the limit may not be shown
    }
    int wanted = config.sendBufferBytes();
    if (wanted <= most) {
      return;
    }
    String what =
        "the kernel limits nodes.send_buffer, "
            + ByteSize.words(wanted)
            + ", to "
            + ByteSize.words(most)
            + " (net.core.wmem_max)";
    findings.add(
        wanted / 2 <= most
            ? Finding.pass(CHECK, what + ", which hardly matters")
            : Finding.warn(
                CHECK,
                what,
                "run 'sysctl -w net.core.wmem_max=" + wanted + "', or set nodes.send_buffer to 0"));
  }

  private void addUcx(List<Finding> findings, String library) {
    try {
      findings.add(
          Finding.pass(
              CHECK, "nodes.ucx_library '" + library + "' is UCX " + UcxFabric.check(library)));
    } catch (IOException e) {
      findings.add(
          Finding.fail(
              CHECK,
              "nodes.transport is ucx, and UCX does not start: " + e.getMessage(),
              "install UCX 1.13 or newer, correct nodes.ucx_library, or set nodes.transport to tcp"));
    }
    if (config.security() != NodeSecurity.PLAINTEXT_WITHOUT_TOKENS) {
      findings.add(
          Finding.warn(
              CHECK,
              "nodes.transport is ucx: the bytes of blocks are not encrypted",
              "let only trusted machines into the network of the nodes, or set nodes.transport to"
                  + " tcp"));
    }
  }

  private static List<Finding> members(Discovery discovery) {
    return switch (discovery) {
      case Discovery.Seeds(List<NodeAddress> seeds) ->
          seeds.stream().map(seed -> reach(seed, "nodes.seeds")).toList();
      case Discovery.Dns(String name, int port) -> named(name, port);
      case Discovery.Multicast(NodeAddress group) ->
          List.of(
              Finding.pass(
                  CHECK, "members are sought in " + group + "; 'kvtier nodes' shows who is found"));
    };
  }

  /** Whether a name is known, and who listens at its addresses. */
  private static List<Finding> named(String name, int port) {
    try {
      List<Finding> findings = new ArrayList<>();
      for (InetAddress address : InetAddress.getAllByName(name)) {
        findings.add(reach(new NodeAddress(address.getHostAddress(), port), "nodes.dns_name"));
      }
      return findings;
    } catch (UnknownHostException e) {
      return List.of(unknown(name, "nodes.dns_name"));
    }
  }

  private static Finding unknown(String name, String key) {
    return Finding.warn(
        CHECK,
        "the name '" + name + "' of " + key + " is not known",
        "correct " + key + ", or the name service of this machine");
  }

  private static Finding port(NodeAddress listen, String key) {
    try (ServerSocket socket = new ServerSocket()) {
      socket.bind(new InetSocketAddress(InetAddress.getByName(listen.host()), listen.port()));
      return Finding.pass(CHECK, listen + " is free for " + key);
    } catch (IOException e) {
      return Finding.fail(
          CHECK,
          "the daemon can't listen on " + listen + ": " + e.getMessage(),
          "choose another " + key);
    }
  }

  private static Finding reach(NodeAddress peer, String key) {
    try (Socket socket = new Socket()) {
      InetAddress address = InetAddress.getByName(peer.host());
      socket.connect(new InetSocketAddress(address, peer.port()), CONNECT_MS);
      return Finding.pass(CHECK, peer + " accepts connections");
    } catch (UnknownHostException e) {
      return unknown(peer.host(), key);
    } catch (IOException e) {
      return Finding.warn(
          CHECK,
          peer + " can't be reached: " + e.getMessage(),
          "start the daemon there, and let its port through firewalls; 'kvtier nodes' of the running"
              + " daemon says more");
    }
  }
}
