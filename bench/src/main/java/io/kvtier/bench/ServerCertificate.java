package io.kvtier.bench;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

/**
 * A certificate for the loopback address that has signed itself, made by the JDK's keytool.
 *
 * @param certificate a PEM file
 * @param key a PEM file
 */
public record ServerCertificate(Path certificate, Path key) {
  private static final String PASSWORD = "changeit";

  /** Makes one in a folder. */
  public static ServerCertificate in(Path folder)
      throws IOException, GeneralSecurityException, InterruptedException {
    ServerCertificate made =
        new ServerCertificate(folder.resolve("server.crt"), folder.resolve("server.key"));
    Path store = folder.resolve("server.p12");
    keytool(
        store,
        "-genkeypair",
        "-keyalg",
        "EC",
        "-dname",
        "CN=kvtier",
        "-ext",
        "bc:c",
        "-ext",
        "san=ip:127.0.0.1,dns:localhost");
    keytool(store, "-exportcert", "-rfc", "-file", made.certificate().toString());
    KeyStore keys = KeyStore.getInstance(store.toFile(), PASSWORD.toCharArray());
    byte[] key = keys.getKey("server", PASSWORD.toCharArray()).getEncoded();
    Files.writeString(
        made.key(),
        "-----BEGIN PRIVATE KEY-----\n"
            + Base64.getMimeEncoder().encodeToString(key)
            + "\n-----END PRIVATE KEY-----\n");
    return made;
  }

  private static void keytool(Path store, String... words)
      throws IOException, InterruptedException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "keytool").toString());
    command.addAll(List.of(words));
    command.addAll(
        List.of("-alias", "server", "-keystore", store.toString(), "-storepass", PASSWORD));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String said = new String(process.getInputStream().readAllBytes(), UTF_8);
    if (process.waitFor() != 0) {
      throw new IOException("keytool made no certificate: " + said);
    }
  }
}
