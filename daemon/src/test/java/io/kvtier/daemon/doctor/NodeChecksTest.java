package io.kvtier.daemon.doctor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.KvtierdConfig.MembersConfig;
import io.kvtier.daemon.config.KvtierdConfig.NodeDirectoryUse;
import io.kvtier.daemon.config.KvtierdConfig.NodeSecurity;
import io.kvtier.daemon.config.KvtierdConfig.NodesConfig;
import io.kvtier.daemon.member.Discovery;
import io.kvtier.protocol.access.Role;
import io.kvtier.tiers.node.NodeAddress;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class NodeChecksTest {
  private static NodesConfig config(
      @Nullable NodeAddress listen, NodeSecurity security, NodeAddress... peers) {
    return config(1, listen, security, peers);
  }

  private static NodesConfig config(
      int sendBufferBytes,
      @Nullable NodeAddress listen,
      NodeSecurity security,
      NodeAddress... peers) {
    return config(sendBufferBytes, null, listen, security, peers);
  }

  private static NodesConfig config(
      int sendBufferBytes,
      @Nullable String ucxLibrary,
      @Nullable NodeAddress listen,
      NodeSecurity security,
      NodeAddress... peers) {
    return new NodesConfig(
        "",
        listen,
        List.of(peers),
        null,
        security,
        "",
        null,
        null,
        1,
        1,
        1,
        1,
        sendBufferBytes,
        ucxLibrary,
        NodeDirectoryUse.OFF,
        1,
        0.5,
        Role.READ);
  }

  private static List<Finding> findings(NodesConfig config) {
    return new NodeChecks(config, false).findings();
  }

  @Test
  void withoutNodes_nothingIsChecked() {
    List<Finding> found = findings(config(null, NodeSecurity.TLS_AND_TOKENS));
    assertEquals(List.of(Finding.Level.PASS), found.stream().map(Finding::level).toList());
  }

  @ParameterizedTest
  @CsvSource({
    "262144, ''",
    "131072, PASS",
    "131071, WARN",
    "many, ''",
  })
  void sendBuffer_thatTheKernelLimits_isTold(String most, String expected, @TempDir Path folder)
      throws IOException {
    Path limit = Files.writeString(folder.resolve("wmem_max"), most + "\n");
    NodesConfig config =
        config(262_144, null, NodeSecurity.TLS_AND_TOKENS, new NodeAddress("127.0.0.1", 1));
    List<Finding> told =
        new NodeChecks(config, true, limit)
            .findings().stream().filter(one -> one.toString().contains("send_buffer")).toList();
    assertEquals(
        expected.isEmpty() ? List.of() : List.of(Finding.Level.valueOf(expected)),
        told.stream().map(Finding::level).toList());
  }

  @Test
  void sendBuffer_limitThatIsNotShown_isNotTold(@TempDir Path folder) {
    NodesConfig config =
        config(262_144, null, NodeSecurity.TLS_AND_TOKENS, new NodeAddress("127.0.0.1", 1));
    assertEquals(1, new NodeChecks(config, true, folder.resolve("none")).findings().size());
  }

  @Test
  void peers_areReachedOrNot_andNamesKnownOrNot() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      NodeAddress there = new NodeAddress("127.0.0.1", socket.getLocalPort());
      NodesConfig config =
          config(
              null,
              NodeSecurity.TLS_AND_TOKENS,
              there,
              new NodeAddress("127.0.0.1", 1),
              new NodeAddress("no-such-host.invalid", 7076));
      List<Finding> found = findings(config);
      assertEquals(
          List.of(Finding.Level.PASS, Finding.Level.WARN, Finding.Level.WARN),
          found.stream().map(Finding::level).toList());
      assertTrue(found.get(2).toString().contains("no-such-host.invalid"));
    }
  }

  @Test
  void ucx_thatIsMissing_isAFault_andItsPlaintextIsTold() {
    NodesConfig config =
        config(
            1, "/no/libucp.so", null, NodeSecurity.TLS_AND_TOKENS, new NodeAddress("127.0.0.1", 1));
    List<String> found =
        findings(config).stream()
            .filter(one -> one.toString().contains("ucx"))
            .map(one -> one.level() + " " + one)
            .toList();
    assertEquals(2, found.size(), found.toString());
    assertTrue(found.get(0).startsWith("FAIL") && found.get(0).contains("/no/libucp.so"));
    assertTrue(found.get(1).startsWith("WARN") && found.get(1).contains("not encrypted"));
  }

  private static NodesConfig finding(NodeAddress listen, Discovery discovery) {
    return new NodesConfig(
        "",
        null,
        List.of(),
        new MembersConfig(discovery, listen, listen, "test"),
        NodeSecurity.TLS_AND_TOKENS,
        "",
        null,
        null,
        1,
        1,
        1,
        1,
        1,
        null,
        NodeDirectoryUse.OFF,
        1,
        0.5,
        Role.READ);
  }

  @Test
  void membersPort_andWhereMembersAreSought_areChecked() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      NodeAddress used = new NodeAddress("127.0.0.1", socket.getLocalPort());
      NodeAddress nobody = new NodeAddress("127.0.0.1", 1);
      List<Finding> seeds = findings(finding(used, new Discovery.Seeds(List.of(used, nobody))));
      assertEquals(
          List.of(Finding.Level.FAIL, Finding.Level.PASS, Finding.Level.WARN),
          seeds.stream().map(Finding::level).toList());
      assertTrue(seeds.get(0).toString().contains("nodes.member_listen"));
      NodesConfig known = finding(used, new Discovery.Dns("127.0.0.1", used.port()));
      assertEquals(
          List.of(Finding.Level.PASS),
          new NodeChecks(known, true).findings().stream().map(Finding::level).toList());
      NodesConfig unknown = finding(used, new Discovery.Dns("no-such-host.invalid", 7077));
      List<Finding> found = new NodeChecks(unknown, true).findings();
      assertEquals(List.of(Finding.Level.WARN), found.stream().map(Finding::level).toList());
      assertTrue(found.getFirst().toString().contains("nodes.dns_name"));
    }
  }

  @Test
  void portInUse_fails_andPlaintextWarns() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      NodeAddress used = new NodeAddress("127.0.0.1", socket.getLocalPort());
      List<Finding> found = findings(config(used, NodeSecurity.PLAINTEXT_WITHOUT_TOKENS));
      assertEquals(
          List.of(Finding.Level.WARN, Finding.Level.FAIL),
          found.stream().map(Finding::level).toList());
      assertTrue(
          new NodeChecks(config(used, NodeSecurity.TLS_AND_TOKENS), true).findings().isEmpty());
    }
  }
}
