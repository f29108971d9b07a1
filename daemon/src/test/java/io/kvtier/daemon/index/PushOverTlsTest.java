package io.kvtier.daemon.index;

import io.kvtier.daemon.access.TestCertificates;
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
    certificates = TestCertificates.withNode(folder);
  }

  @Override
  @Nullable Supplier<SSLContext> tls() throws IOException {
    return certificates.ofNode(certificates);
  }
}
