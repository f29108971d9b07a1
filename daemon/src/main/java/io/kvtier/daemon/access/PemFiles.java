package io.kvtier.daemon.access;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** Certificates and keys as they lie in PEM files. */
final class PemFiles {
  private static final Pattern KEY =
      Pattern.compile("-----BEGIN PRIVATE KEY-----([A-Za-z0-9+/=\\s]+)-----END PRIVATE KEY-----");
  private static final List<String> ALGORITHMS = List.of("RSA", "EC", "EdDSA");

  private PemFiles() {}

  /** The certificates of a file, in their order. */
  static X509Certificate[] certificates(String key, Path file) throws IOException {
    try {
      X509Certificate[] found =
          CertificateFactory.getInstance("X.509")
              .generateCertificates(new ByteArrayInputStream(bytes(key, file)))
              .stream()
              .map(X509Certificate.class::cast)
              .toArray(X509Certificate[]::new);
      if (found.length > 0) {
        return found;
      }
    } catch (CertificateException e) {
      throw noCertificate(key, file, e);
    }
    throw noCertificate(key, file, null);
  }

  private static IOException noCertificate(String key, Path file, @Nullable Exception cause) {
    return new IOException(
        key + " '" + file + "': expected certificates in PEM (-----BEGIN CERTIFICATE-----)", cause);
  }

  /** The private key of a file. */
  static PrivateKey privateKey(String key, Path file) throws IOException {
    Matcher matcher = KEY.matcher(new String(bytes(key, file), StandardCharsets.US_ASCII));
    if (!matcher.find()) {
      throw new IOException(
          key
              + " '"
              + file
              + "': expected a private key in PEM, unencrypted and as PKCS #8 (-----BEGIN PRIVATE"
              + " KEY-----); 'openssl pkcs8 -topk8 -nodes' makes it of others");
    }
    PKCS8EncodedKeySpec encoded =
        new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(matcher.group(1)));
    for (String algorithm : ALGORITHMS) {
      try {
        return KeyFactory.getInstance(algorithm).generatePrivate(encoded);
      } catch (GeneralSecurityException e) {
        // It is of another algorithm.
      }
    }
    throw new IOException(
        key + " '" + file + "': expected a key of one of " + String.join(", ", ALGORITHMS));
  }

  private static byte[] bytes(String key, Path file) throws IOException {
    try {
      return Files.readAllBytes(file);
    } catch (NoSuchFileException e) {
      throw new IOException(key + " '" + file + "' does not exist", e);
    } catch (IOException e) {
      throw new IOException(key + " '" + file + "' can't be read: " + e, e);
    }
  }
}
