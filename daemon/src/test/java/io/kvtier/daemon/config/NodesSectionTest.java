package io.kvtier.daemon.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.KvtierdConfig.MembersConfig;
import io.kvtier.daemon.config.KvtierdConfig.NodesConfig;
import io.kvtier.daemon.member.Discovery;
import io.kvtier.tiers.node.NodeAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class NodesSectionTest {
  private static final List<String> PLAIN =
      List.of(
          "nodes.security=plaintext_without_tokens",
          "nodes.listen=10.0.0.7:7076",
          "nodes.member_listen=10.0.0.7:7077");

  private static NodesConfig nodes(List<String> settings) throws ConfigException {
    return ConfigLoader.load(null, settings).network().nodes();
  }

  private static NodesConfig plain(String... more) throws ConfigException {
    List<String> settings = new ArrayList<>(PLAIN);
    settings.addAll(List.of(more));
    return nodes(settings);
  }

  @Test
  void byDefault_thereAreNoNodes() throws ConfigException {
    NodesConfig config = nodes(List.of());
    assertFalse(config.isOn());
    assertFalse(config.readsOthers());
    assertNull(config.members());
  }

  @Test
  void eachMembership_seeksAsItSays() throws ConfigException {
    NodeAddress listen = new NodeAddress("10.0.0.7", 7077);
    NodeAddress serves = new NodeAddress("10.0.0.7", 7076);
    NodesConfig list = plain("nodes.membership=list", "nodes.seeds=10.0.0.8:7077,a:7077");
    assertTrue(list.readsOthers());
    assertEquals(
        new MembersConfig(
            new Discovery.Seeds(
                List.of(new NodeAddress("10.0.0.8", 7077), new NodeAddress("a", 7077))),
            listen,
            serves,
            "kvtier"),
        list.members());
    assertEquals(
        new MembersConfig(new Discovery.Dns("nodes.example", 7077), listen, serves, "two"),
        plain("nodes.membership=dns", "nodes.dns_name=nodes.example", "nodes.cluster=two")
            .members());
    assertEquals(
        new MembersConfig(
            new Discovery.Multicast(new NodeAddress("239.192.0.77", 7077)),
            listen,
            serves,
            "kvtier"),
        plain("nodes.membership=multicast").members());
  }

  @Test
  void addressThatStandsForAll_isAdvertisedAsAnother() throws ConfigException {
    MembersConfig members =
        plain(
                "nodes.membership=multicast",
                "nodes.listen=0.0.0.0:7076",
                "nodes.advertise=10.0.0.9:7000")
            .members();
    assertEquals(new NodeAddress("10.0.0.9", 7000), members == null ? null : members.advertised());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '"',
      value = {
        "nodes.membership=gossip | expected static, list, dns or multicast",
        "nodes.membership=list | expected nodes.member_listen of one or more nodes",
        "nodes.membership=list nodes.seeds=a | 'a' is no HOST:PORT",
        "nodes.membership=list nodes.seeds=a:1,a:1 | each node only once",
        "nodes.membership=list nodes.seeds=a:1 nodes.peers=b:1 | or set nodes.membership: static",
        "nodes.membership=dns | a name with the addresses of all nodes",
        "nodes.membership=dns nodes.dns_name=a nodes.member_listen= | where members connect",
        "nodes.membership=dns nodes.dns_name=a nodes.member_listen=a:0 | no port 0",
        "nodes.membership=dns nodes.dns_name=a nodes.listen= | where this node serves others",
        "nodes.membership=dns nodes.dns_name=a nodes.listen=0.0.0.0:1 | by which others reach",
        "nodes.membership=dns nodes.dns_name=a nodes.advertise=[::]:1 | that others reach",
        "nodes.membership=dns nodes.dns_name=a nodes.cluster= | a name of 1 to 64 characters",
        "nodes.membership=multicast nodes.multicast=10.0.0.1:7 | such as 239.192.0.77:7077",
        "nodes.seeds=a:1 | or set nodes.membership: list",
        "nodes.dns_name=a | or set nodes.membership: dns",
        "nodes.listen=a | 'a' is no HOST:PORT",
        "nodes.pushed_share=0.95 | 0 to 0.9",
        "nodes.tokenless_role=admin | read or write",
        "nodes.directory=maybe | auto, on or off",
        "nodes.directory_bytes=1KiB | nodes.directory_bytes",
        "nodes.send_buffer=1GiB | nodes.send_buffer",
        "nodes.transport=rdma | tcp or ucx",
        "nodes.transport=ucx nodes.ucx_library= | the path or the name of libucp",
      })
  void mistake_namesItsCure(String settings, String expected) {
    ConfigException e = assertThrows(ConfigException.class, () -> plain(settings.split(" ")));
    assertTrue(String.valueOf(e.getMessage()).contains(expected), e.getMessage());
  }

  private static String peers(int count) {
    return IntStream.range(0, count)
        .mapToObj(i -> "a" + i + ":1")
        .collect(Collectors.joining(",", "nodes.peers=", ""));
  }

  @Test
  void moreNodesThanCanBeAsked_needADirectory() throws ConfigException {
    assertEquals(33, plain(peers(33)).peers().size());
    assertEquals(32, plain(peers(32), "nodes.directory=off").peers().size());
    for (String[] wrong :
        List.of(new String[] {peers(33), "nodes.directory=off"}, new String[] {peers(1025)})) {
      ConfigException e = assertThrows(ConfigException.class, () -> plain(wrong));
      assertTrue(String.valueOf(e.getMessage()).contains("expected at most"), e.getMessage());
    }
  }

  @Test
  void library_isUsed_onlyWithUcx() throws ConfigException {
    assertEquals(null, plain("nodes.ucx_library=/opt/libucp.so.0").ucxLibrary());
    assertEquals("libucp.so.0", plain("nodes.transport=ucx").ucxLibrary());
  }

  @Test
  void sendBuffer_isBounded_unlessTheKernelDecides() throws ConfigException {
    assertEquals(256 << 10, plain().sendBufferBytes());
    assertEquals(4 << 20, plain("nodes.send_buffer=4MiB").sendBufferBytes());
    assertEquals(0, plain("nodes.send_buffer=0").sendBufferBytes());
  }

  @Test
  void membersWithTokens_needOneToShow() {
    ConfigException e =
        assertThrows(
            ConfigException.class,
            () ->
                plain(
                    "nodes.security=tls_and_tokens",
                    "nodes.membership=multicast",
                    "access.tokens=/t",
                    "nodes.ca=/c",
                    "tls.certificate=/c",
                    "tls.key=/k"));
    assertTrue(String.valueOf(e.getMessage()).contains("nodes.token_file"), e.getMessage());
  }
}
