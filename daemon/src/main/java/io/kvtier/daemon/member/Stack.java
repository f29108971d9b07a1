package io.kvtier.daemon.member;

import io.kvtier.tiers.node.NodeAddress;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.List;
import org.jgroups.JChannel;
import org.jgroups.logging.LogFactory;
import org.jgroups.protocols.FD_ALL3;
import org.jgroups.protocols.MERGE3;
import org.jgroups.protocols.MPING;
import org.jgroups.protocols.TCP;
import org.jgroups.protocols.TCPPING;
import org.jgroups.protocols.UNICAST3;
import org.jgroups.protocols.VERIFY_SUSPECT2;
import org.jgroups.protocols.pbcast.GMS;
import org.jgroups.protocols.pbcast.NAKACK2;
import org.jgroups.protocols.pbcast.STABLE;
import org.jgroups.stack.DiagnosticsHandler;
import org.jgroups.stack.Protocol;
import org.jgroups.util.DefaultSocketFactory;
import org.jgroups.util.DefaultThreadFactory;

/**
 * The protocols of JGroups between members, all over TCP. A member that is killed is noticed by the
 * end of its connections, one that is silent after 6 s to 8.5 s. Parts of a cluster that meet again
 * are one after about 10 s.
 */
final class Stack {
  private static final long HEARTBEAT_MS = 1500;
  private static final long SILENT_MS = 6000;
  private static final long VERIFY_MS = 1000;
  private static final long MERGE_MS_MIN = 500;
  private static final long MERGE_MS_MAX = 3000;
  private static final long JOIN_MS = 2000;
  private static final long LEAVE_MS = 1000;
  private static final int JOIN_ATTEMPTS = 3;
  private static final int CONNECT_MS = 1000;

  /** How many addresses are tried where members were once, and are no seeds. */
  private static final int FORMER_MAX = 64;

  private static final int MESSAGE_BYTES_MAX = 1 << 20;

  private Stack() {}

  /** A channel that is not connected. */
  static JChannel channel(
      NodeAddress listen, Discovery discovery, InetAddress shown, MemberSockets sockets)
      throws Exception {
    InetAddress bound = InetAddress.getByName(listen.host());
    TCP tcp = new TCP();
    tcp.setBindAddress(bound).setBindPort(listen.port()).setPortRange(0);
    if (bound.isAnyLocalAddress()) {
      tcp.setExternalAddr(shown);
    }
    tcp.setSocketFactory(sockets);
    // A buffer calls the end of a connection a failure.
    tcp.setBufferedInputStreamSize(0);
    tcp.setSockConnTimeout(CONNECT_MS)
        .setMaxLength(MESSAGE_BYTES_MAX)
        .tcpNodelay(true)
        .deferClientBindAddr(bound.isAnyLocalAddress())
        .logDetails(false)
        .enableSuspectEvents(true);
    tcp.setDiagnosticsHandler(
        new DiagnosticsHandler(
                LogFactory.getLog(DiagnosticsHandler.class),
                new DefaultSocketFactory(),
                new DefaultThreadFactory("diagnostics", true))
            .setEnabled(false));
    return new JChannel(
        List.of(
            tcp,
            seeking(discovery, bound),
            new MERGE3().setMaxInterval(MERGE_MS_MAX).setMinInterval(MERGE_MS_MIN),
            new FD_ALL3().setTimeout(SILENT_MS).setInterval(HEARTBEAT_MS),
            new VERIFY_SUSPECT2().setTimeout(VERIFY_MS),
            new NAKACK2().useMcastXmit(false),
            new UNICAST3(),
            new STABLE(),
            new GMS()
                .setJoinTimeout(JOIN_MS)
                .setMaxJoinAttempts(JOIN_ATTEMPTS)
                .setLeaveTimeout(LEAVE_MS)
                .printLocalAddress(false)));
  }

  private static Protocol seeking(Discovery discovery, InetAddress bound)
      throws UnknownHostException {
    return switch (discovery) {
      case Discovery.Multicast(NodeAddress group) ->
          new MPING()
              .setBindAddr(bound)
              .setMcastAddr(InetAddress.getByName(group.host()))
              .setMcastPort(group.port());
      case Discovery.Dns(String name, int port) -> seeking(List.of(new NodeAddress(name, port)));
      case Discovery.Seeds(List<NodeAddress> seeds) -> seeking(seeds);
    };
  }

  /**
   * Not DNS_PING for names: with it, members do not learn each other's addresses from the first of
   * them, and parts of a cluster do not meet again when no seed is left.
   */
  private static Protocol seeking(List<NodeAddress> seeds) {
    return new TCPPING()
        .<TCPPING>setInitialHosts2(new Seeds(seeds))
        .<TCPPING>setValue("max_dynamic_hosts", FORMER_MAX)
        .portRange(0)
        // A seed tells where the others are, too: the first of the group is perhaps no seed.
        .returnEntireCache(true)
        .asyncDiscovery(true)
        .asyncDiscoveryUseSeparateThread(true);
  }
}
