package io.kvtier.daemon.access;

import io.kvtier.daemon.config.KvtierdConfig.TlsConfig;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.Key;
import java.security.KeyStore;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;

/** An authority and what it signs, in PEM files of a folder; made by the JDK's own keytool. */
public final class TestCertificates {
  private static final String PASSWORD = "changeit";
  private static final String AUTHORITY = "ca";
  private static final String STORE = "keys.p12";

  private final Path folder;

  /** Makes the authority: {@code ca.crt}. */
  public TestCertificates(Path folder) throws Exception {
    this.folder = folder;
    keytool(AUTHORITY, "-ext", "bc:c");
    writeCertificate(AUTHORITY);
  }

  /** An authority in a folder, which is made, with the certificate {@code node}. */
  public static TestCertificates withNode(Path folder) throws Exception {
    TestCertificates made = new TestCertificates(Files.createDirectories(folder));
    made.sign("node", "");
    return made;
  }

  /** TLS with the certificate {@code node}, which trusts the nodes of an authority. */
  public Supplier<SSLContext> ofNode(TestCertificates trusted) throws IOException {
    ServerTls tls = new ServerTls(new TlsConfig(file("node.crt"), file("node.key"), null, 1));
    SSLContext context = tls.ofNodes(trusted.file("ca.crt"));
    return () -> context;
  }

  /** A file of the folder. */
  public Path file(String name) {
    return folder.resolve(name);
  }

  /**
   * Makes {@code NAME.crt} and {@code NAME.key}, signed by the authority.
   *
   * @param start of its ten days, as keytool has it: empty for now
   */
  public void sign(String name, String start) throws Exception {
    List<String> words =
        new ArrayList<>(
            List.of(
                "-signer", AUTHORITY, "-validity", "10", "-ext", "san=ip:127.0.0.1,dns:localhost"));
    if (!start.isEmpty()) {
      words.addAll(List.of("-startdate", start));
    }
    keytool(name, words.toArray(String[]::new));
    writeCertificate(name);
    Key key = store().getKey(name, PASSWORD.toCharArray());
    write(name + ".key", "PRIVATE KEY", key.getEncoded());
  }

  private KeyStore store() throws IOException, GeneralSecurityException {
    return KeyStore.getInstance(file(STORE).toFile(), PASSWORD.toCharArray());
  }

  private void writeCertificate(String name) throws IOException, GeneralSecurityException {
    write(name + ".crt", "CERTIFICATE", store().getCertificate(name).getEncoded());
  }

  private void write(String name, String kind, byte[] bytes) throws IOException {
    Files.writeString(
        file(name),
        "-----BEGIN "
            + kind
            + "-----\n"
            + Base64.getMimeEncoder().encodeToString(bytes)
            + "\n-----END "
            + kind
            + "-----\n");
  }

  /** Makes a pair of keys with its certificate. Each run is a JVM, which takes a second. */
  private void keytool(String name, String... words) throws IOException, InterruptedException {
    List<String> command =
        new ArrayList<>(
            List.of(
                Path.of(System.getProperty("java.home"), "bin", "keytool").toString(),
                "-J-XX:TieredStopAtLevel=1",
                "-J-XX:+UseSerialGC",
                "-genkeypair",
                "-keyalg",
                "EC",
                "-dname",
                "CN=" + (name.equals(AUTHORITY) ? "test ca" : name)));
    command.addAll(List.of(words));
    command.addAll(
        List.of("-alias", name, "-keystore", file(STORE).toString(), "-storepass", PASSWORD));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    if (process.waitFor() != 0) {
      throw new IOException(command + ": " + output);
    }
  }
}
