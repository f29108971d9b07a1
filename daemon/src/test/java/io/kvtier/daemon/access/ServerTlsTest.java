package io.kvtier.daemon.access;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import io.kvtier.daemon.config.KvtierdConfig.TlsConfig;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.PrivateKey;
import java.security.cert.X509Certificate;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ServerTlsTest {
  @TempDir private Path folder;
  private long clockNs;

  @Test
  void handshake_filesReplacedInItsMiddle_getsCertificateAndKeyOfTheSamePair() throws Exception {
    TestCertificates certificates = new TestCertificates(folder);
    certificates.sign("server", "");
    certificates.sign("next", "");
    ServerTls tls =
        new ServerTls(
            new TlsConfig(
                certificates.file("server.crt"), certificates.file("server.key"), null, 1),
            () -> clockNs);
    ServerTls.Keys keys = tls.new Keys();
    String first = requireNonNull(keys.chooseEngineServerAlias("EC", null, null));
    PrivateKey key = keys.getPrivateKey(first);
    X509Certificate certificate = keys.getCertificateChain(first)[0];
    for (String kind : new String[] {".key", ".crt"}) {
      Files.copy(
          certificates.file("next" + kind),
          certificates.file("server" + kind),
          StandardCopyOption.REPLACE_EXISTING);
    }
    clockNs += 2_000_000_000L;
    String second = requireNonNull(keys.chooseEngineServerAlias("EC", null, null));
    assertNotEquals(certificate, keys.getCertificateChain(second)[0]);
    assertNotEquals(key, keys.getPrivateKey(second));
    // The handshake that chose before goes on with what it chose.
    assertEquals(certificate, keys.getCertificateChain(first)[0]);
    assertEquals(key, keys.getPrivateKey(first));
  }
}
