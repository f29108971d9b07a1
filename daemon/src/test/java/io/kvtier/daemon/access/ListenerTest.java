package io.kvtier.daemon.access;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.KvtierdConfig.AccessConfig;
import io.kvtier.protocol.access.Role;
import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

class ListenerTest {
  private static final AccessConfig ANYBODY = new AccessConfig(null, Role.WRITE);

  private static Listener listener(String host, int port) {
    return new Listener("gRPC", "grpc", true, host, port, null);
  }

  /** A name may stand for another address a moment later, or for none. */
  @Test
  void requireFree_asksForTheAddressThatWasJudged() throws IOException {
    InetAddress judged = InetAddress.ofLiteral("127.0.0.2");
    try (ServerSocket taken = new ServerSocket(0, 1, judged)) {
      Listener named = listener("no.such.host.invalid", taken.getLocalPort());
      IOException refused =
          assertThrows(IOException.class, () -> new Listener.Place(named, judged).requireFree());
      String message = String.valueOf(refused.getMessage());
      assertTrue(
          message.startsWith(
              "gRPC can't listen on no.such.host.invalid:" + taken.getLocalPort() + ": "),
          message);
      assertTrue(message.contains("choose another grpc.port (0: any free one) or grpc.host"));
    }
    new Listener.Place(listener("no.such.host.invalid", 0), judged).requireFree();
  }

  @Test
  void judge_loopback_isWhereItListens() throws IOException {
    Listener.Place place = listener("127.0.0.3", 7).judge(ANYBODY);
    assertEquals("127.0.0.3", place.address().getHostAddress());
    assertThrows(IOException.class, () -> listener("0.0.0.0", 7).judge(ANYBODY));
  }

  @Test
  void await_failed_namesTheKey() throws IOException {
    Listener.Place place = listener("127.0.0.1", 7).judge(ANYBODY);
    IOException taken =
        assertThrows(
            IOException.class,
            () -> place.await(CompletableFuture.failedFuture(new BindException("taken"))));
    assertTrue(String.valueOf(taken.getMessage()).contains("127.0.0.1:7: taken; choose another"));
    IOException other =
        assertThrows(
            IOException.class,
            () -> place.await(CompletableFuture.failedFuture(new IOException("what"))));
    assertTrue(String.valueOf(other.getMessage()).contains("127.0.0.1 (grpc.host): "));
    place.await(CompletableFuture.completedFuture(1));
  }
}
