package io.kvtier.daemon.member;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.node.NodeAddress;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import org.jgroups.util.Util;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Members in one process, over loopback; the ports of all are the seeds of each. */
class JGroupsMembershipTest extends MembershipContract {
  private static final long WAIT_MS = 60_000;

  /** Takes no notice of members. */
  private static final Membership.Listener DEAF =
      new Membership.Listener() {
        @Override
        public void joined(Member member) {}

        @Override
        public void left(Member member) {}
      };

  /** Where members listen, by the addresses that they tell. */
  private final Map<NodeAddress, NodeAddress> places = new HashMap<>();

  private final AtomicInteger refused = new AtomicInteger();
  private final List<Throwable> defects = new CopyOnWriteArrayList<>();

  @AfterEach
  void nothingHappenedThatShouldNot() {
    assertEquals(List.of(), defects);
  }

  private static int freePort() throws IOException {
    try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return free.getLocalPort();
    }
  }

  /** The certificates of a member; null for plaintext. */
  @Nullable Supplier<SSLContext> tls(Member self) {
    return null;
  }

  @BeforeEach
  void choosePorts() throws IOException {
    for (int number = 1; number <= 3; number++) {
      places.put(
          new NodeAddress("10.0.0." + number, 7076), new NodeAddress("127.0.0.1", freePort()));
    }
  }

  private NodeAddress listen(Member self) {
    return Objects.requireNonNull(places.get(self.address()));
  }

  @Override
  JGroupsMembership membership(Member self) throws IOException {
    return membership(self, listen(self), new Discovery.Seeds(List.copyOf(places.values())));
  }

  private JGroupsMembership membership(Member self, NodeAddress listen, Discovery discovery) {
    return new JGroupsMembership(
        new JGroupsMembership.Options(
            self, listen, "test", discovery, tls(self), refused::incrementAndGet, defects::add));
  }

  @Override
  void kill(Membership membership) {
    try {
      Util.shutdown(((JGroupsMembership) membership).channel(), false);
    } catch (Exception e) {
      throw new AssertionError(e);
    }
  }

  @Override
  void await(String what, Condition condition) throws InterruptedException {
    long endNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(WAIT_MS);
    while (!condition.holds()) {
      assertTrue(System.nanoTime() < endNs, what);
      Thread.sleep(20);
    }
  }

  private static boolean listens(NodeAddress at) {
    try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), at.port())) {
      return socket.isConnected();
    } catch (IOException e) {
      return false;
    }
  }

  int refused() {
    return refused.get();
  }

  @Test
  void nobodyThere_theStartDoesNotWait() throws IOException {
    NodeAddress listen = new NodeAddress("127.0.0.1", freePort());
    NodeAddress nobody = new NodeAddress("127.0.0.1", freePort());
    NodeAddress unknown = new NodeAddress("no-such-host.invalid", 7077);
    try (JGroupsMembership alone =
        membership(
            new Member(listen, "alone", 1),
            listen,
            new Discovery.Seeds(List.of(nobody, unknown)))) {
      alone.start(DEAF);
    }
  }

  @Test
  void takenPort_isNamedAtTheStart() throws IOException {
    try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      NodeAddress listen = new NodeAddress("127.0.0.1", taken.getLocalPort());
      try (JGroupsMembership late =
          membership(new Member(listen, "late", 1), listen, new Discovery.Seeds(List.of()))) {
        IOException e = assertThrows(IOException.class, () -> late.start(DEAF));
        assertTrue(String.valueOf(e.getMessage()).contains("nodes.member_listen"), e.toString());
      }
    }
  }

  @Test
  void strangersWhoSayNothingOrGarbage_keepNobodyOut() throws Exception {
    Member self = new Member(new NodeAddress("10.0.0.1", 7076), "first", 1);
    Node first = new Node(self);
    NodeAddress at = listen(self);
    await("it listens", () -> listens(at));
    try (Socket silent = new Socket(InetAddress.getLoopbackAddress(), at.port());
        Socket garbage = new Socket(InetAddress.getLoopbackAddress(), at.port())) {
      garbage.getOutputStream().write(new byte[4096]);
      assertTrue(silent.isConnected());
      Node second = new Node(new Member(new NodeAddress("10.0.0.2", 7076), "second", 2));
      await("both know each other", () -> first.knows(second.self) && second.knows(first.self));
      assertEquals(List.of(), first.defects());
    }
  }
}
