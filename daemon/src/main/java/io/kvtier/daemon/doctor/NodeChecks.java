package io.kvtier.daemon.doctor;

import io.kvtier.daemon.config.KvtierdConfig.NodeSecurity;
import io.kvtier.daemon.config.KvtierdConfig.NodesConfig;
import io.kvtier.tiers.node.NodeAddress;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;

/** Checks what other nodes need: the port, names, and whether they listen. */
final class NodeChecks {
  private static final String CHECK = "nodes";
  private static final int CONNECT_MS = 2000;

  private final NodesConfig config;
  private final boolean isRunning;

  /**
   * Checks for one configuration.
   *
   * @param isRunning whether a daemon with it runs, and so has the port
   */
  NodeChecks(NodesConfig config, boolean isRunning) {
    this.config = config;
    this.isRunning = isRunning;
  }

  List<Finding> findings() {
    List<Finding> findings = new ArrayList<>();
    if (!config.isOn()) {
      findings.add(Finding.pass(CHECK, "none: nodes.listen and nodes.peers are empty"));
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
    NodeAddress listen = config.listen();
    if (listen != null && !isRunning) {
      findings.add(port(listen));
    }
    config.peers().forEach(peer -> findings.add(reach(peer)));
    return findings;
  }

  private static Finding port(NodeAddress listen) {
    try (ServerSocket socket = new ServerSocket()) {
      socket.bind(new InetSocketAddress(InetAddress.getByName(listen.host()), listen.port()));
      return Finding.pass(CHECK, listen + " is free for nodes.listen");
    } catch (IOException e) {
      return Finding.fail(
          CHECK,
          "the daemon can't listen on " + listen + ": " + e.getMessage(),
          "choose another nodes.listen");
    }
  }

  private static Finding reach(NodeAddress peer) {
    try (Socket socket = new Socket()) {
      InetAddress address = InetAddress.getByName(peer.host());
      socket.connect(new InetSocketAddress(address, peer.port()), CONNECT_MS);
      return Finding.pass(CHECK, peer + " accepts connections");
    } catch (UnknownHostException e) {
      return Finding.warn(
          CHECK,
          "the name '" + peer.host() + "' of nodes.peers is not known",
          "correct nodes.peers, or the name service of this machine");
    } catch (IOException e) {
      return Finding.warn(
          CHECK,
          peer + " can't be reached: " + e.getMessage(),
          "start the daemon there, and let its port through firewalls; 'kvtier nodes' of the running"
              + " daemon says more");
    }
  }
}
