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

  private final Path folder;

  /** Makes the authority: {@code ca.crt}. */
  public TestCertificates(Path folder) throws IOException, InterruptedException {
    this.folder = folder;
    keytool("ca", "-genkeypair", "-keyalg", "EC", "-dname", "CN=test ca", "-ext", "bc:c");
    keytool("ca", "-exportcert", "-rfc", "-file", file("ca.crt").toString());
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
    keytool(name, "-genkeypair", "-keyalg", "EC", "-dname", "CN=" + name);
    Path request = file(name + ".csr");
    keytool(name, "-certreq", "-file", request.toString());
    List<String> words =
        new ArrayList<>(
            List.of(
                "-gencert",
                "-infile",
                request.toString(),
                "-rfc",
                "-outfile",
                file(name + ".crt").toString(),
                "-validity",
                "10",
                "-ext",
                "san=ip:127.0.0.1,dns:localhost"));
    if (!start.isEmpty()) {
      words.addAll(List.of("-startdate", start));
    }
    keytool("ca", words.toArray(String[]::new));
    Files.writeString(file(name + ".key"), privateKey(name));
  }

  private String privateKey(String name) throws IOException, GeneralSecurityException {
    KeyStore store = KeyStore.getInstance(file(name + ".p12").toFile(), PASSWORD.toCharArray());
    Key key = store.getKey(name, PASSWORD.toCharArray());
    return "-----BEGIN PRIVATE KEY-----\n"
        + Base64.getMimeEncoder().encodeToString(key.getEncoded())
        + "\n-----END PRIVATE KEY-----\n";
  }

  private void keytool(String store, String... words) throws IOException, InterruptedException {
    List<String> command =
        new ArrayList<>(
            List.of(Path.of(System.getProperty("java.home"), "bin", "keytool").toString()));
    command.addAll(List.of(words));
    command.addAll(
        List.of(
            "-alias", store, "-keystore", file(store + ".p12").toString(), "-storepass", PASSWORD));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    if (process.waitFor() != 0) {
      throw new IOException(command + ": " + output);
    }
  }
}
