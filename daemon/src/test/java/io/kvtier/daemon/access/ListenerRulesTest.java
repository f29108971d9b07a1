package io.kvtier.daemon.access;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.KvtierdConfig.AccessConfig;
import io.kvtier.daemon.config.KvtierdConfig.TlsConfig;
import io.kvtier.protocol.access.Role;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ListenerRulesTest {
  private static final AccessConfig ANYBODY = new AccessConfig(null, Role.WRITE);
  private static final AccessConfig TOKENS = new AccessConfig(Path.of("t"), Role.NONE);

  private static TlsConfig tls(@Nullable Path clientCa) {
    return new TlsConfig(Path.of("c"), Path.of("k"), clientCa, 1);
  }

  private static String refusal(String host, @Nullable TlsConfig tls, AccessConfig access) {
    return String.valueOf(
        assertThrows(
                IOException.class, () -> ListenerRules.require("grpc", host, tls, access), host)
            .getMessage());
  }

  @ParameterizedTest
  @ValueSource(strings = {"127.0.0.1", "127.8.8.8", "::1", "localhost"})
  void require_loopback_needsNothing(String host) {
    InetAddress judged =
        assertDoesNotThrow(() -> ListenerRules.require("grpc", host, null, ANYBODY));
    assertTrue(judged.isLoopbackAddress(), judged::toString);
  }

  @Test
  void address_ofIpv6_isInBrackets() {
    assertEquals("[::1]:7077", ListenerRules.address("::1", 7077));
    assertEquals("127.0.0.1:7077", ListenerRules.address("127.0.0.1", 7077));
  }

  @Test
  void require_nameWithoutAddress_isRefused() {
    String refusal = refusal("no-such-host.invalid", null, ANYBODY);
    assertTrue(
        refusal.startsWith(
            "grpc.host is 'no-such-host.invalid', for which no address is known; expected"),
        refusal);
  }

  /** The resolver would say loopback, and others all addresses. */
  @Test
  void require_noHost_isRefusedWhateverElseThereIs() {
    assertTrue(
        refusal("", tls(Path.of("ca")), TOKENS).startsWith("grpc.host is '', expected a name"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"0.0.0.0", "::", "10.1.2.3"})
  void require_anyOtherAddress_needsTlsAndWhoMay(String host) {
    assertTrue(refusal(host, null, TOKENS).contains("tls.certificate"));
    assertTrue(refusal(host, tls(null), ANYBODY).contains("access.tokens"));
    assertDoesNotThrow(() -> ListenerRules.require("grpc", host, tls(null), TOKENS));
    assertDoesNotThrow(() -> ListenerRules.require("grpc", host, tls(Path.of("ca")), ANYBODY));
  }
}
