package io.kvtier.daemon.index;

import io.kvtier.daemon.access.ServerTls;
import io.kvtier.daemon.access.TestCertificates;
import io.kvtier.daemon.config.KvtierdConfig.TlsConfig;
import java.io.IOException;
import java.nio.file.Path;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.io.TempDir;

/** Pushes over TCP on loopback, with mutual TLS. */
class PushOverTlsTest extends PushOverTcpTest {
  @TempDir static Path folder;

  private static TestCertificates certificates;

  @SuppressWarnings("NullAway.Init") // makeCertificates() comes first
  PushOverTlsTest() {}

  @BeforeAll
  static void makeCertificates() throws Exception {
    certificates = new TestCertificates(folder);
    certificates.sign("node", "");
  }

  @Override
  @Nullable Supplier<SSLContext> tls() throws IOException {
    ServerTls tls =
        new ServerTls(
            new TlsConfig(certificates.file("node.crt"), certificates.file("node.key"), null, 1));
    SSLContext context = tls.ofNodes(certificates.file("ca.crt"));
    return () -> context;
  }
}
