package io.kvtier.daemon.node;

import io.kvtier.daemon.access.TestCertificates;
import java.io.IOException;
import java.nio.file.Path;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.io.TempDir;

/** Links with mutual TLS whose blocks go by UCX. */
class UcxWithTlsTest extends UcxTransportTest {
  @TempDir static Path folder;

  private static TestCertificates ours;

  @SuppressWarnings("NullAway.Init") // makeCertificates() comes first
  UcxWithTlsTest() {}

  @BeforeAll
  static void makeCertificates() throws Exception {
    ours = TestCertificates.withNode(folder.resolve("ours"));
  }

  @Override
  @Nullable Supplier<SSLContext> tls() throws IOException {
    return ours.ofNode(ours);
  }
}
