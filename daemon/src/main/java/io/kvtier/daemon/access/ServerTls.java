package io.kvtier.daemon.access;

import io.kvtier.daemon.config.KvtierdConfig.TlsConfig;
import io.vertx.core.http.ClientAuth;
import io.vertx.core.http.HttpServerOptions;
import io.vertx.core.net.KeyCertOptions;
import io.vertx.core.net.TrustOptions;
import java.io.IOException;
import java.net.Socket;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.Principal;
import java.security.PrivateKey;
import java.security.Signature;
import java.security.cert.CertificateException;
import java.security.cert.X509Certificate;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import javax.net.ssl.KeyManager;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedKeyManager;
import javax.net.ssl.X509ExtendedTrustManager;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What listeners show to their callers, and whom they trust: the files of the configuration, read
 * again when they change, so that certificates are renewed without a restart. New connections get
 * what stands there now; one that is open keeps what it began with. Files that do not fit each
 * other, or can't be read, change nothing, and the log says why. From any thread.
 */
public final class ServerTls {
  private static final Logger LOG = LoggerFactory.getLogger(ServerTls.class);
  private static final long LOOK_EVERY_NS = 1_000_000_000L;
  private static final List<String> PROTOCOLS = List.of("TLSv1.3", "TLSv1.2");

  /**
   * What was read at one time.
   *
   * @param alias by which a handshake gets certificate and key of the same
   */
  private record Loaded(
      String alias,
      List<X509Certificate> chain,
      PrivateKey key,
      @Nullable X509ExtendedTrustManager trust) {}

  private final TlsConfig config;
  private final LongSupplier clock;
  private volatile Loaded loaded;

  /** Of handshakes that chose it before it was replaced: they take a moment, not two looks. */
  private volatile Loaded before;

  private volatile long lookAgainNs;
  private List<FileStamp> stamps;
  private int loads;

  /**
   * Reads the files.
   *
   * @throws IOException naming the key and the file that is wrong
   */
  public ServerTls(TlsConfig config) throws IOException {
    this(config, System::nanoTime);
  }

  ServerTls(TlsConfig config, LongSupplier clock) throws IOException {
    this.config = config;
    this.clock = clock;
    stamps = stamps();
    loaded = load();
    before = loaded;
    lookAgainNs = clock.getAsLong() + LOOK_EVERY_NS;
  }

  /** Has a server speak TLS only. */
  public void apply(HttpServerOptions options) {
    options
        .setSsl(true)
        .setUseAlpn(true)
        .setSslEngineOptions(new FastestSuites())
        .setKeyCertOptions(KeyCertOptions.wrap(new Keys()))
        .setSslHandshakeTimeout(config.handshakeTimeoutNs())
        .setSslHandshakeTimeoutUnit(TimeUnit.NANOSECONDS);
    options.setEnabledSecureTransportProtocols(new LinkedHashSet<>(PROTOCOLS));
    if (config.clientCa() != null) {
      options.setClientAuth(ClientAuth.REQUIRED).setTrustOptions(TrustOptions.wrap(new Trust()));
    }
  }

  /**
   * TLS between nodes: each side shows this certificate to the other.
   *
   * @param ca has signed the certificates of all nodes
   * @throws IOException naming the key and the file that is wrong
   */
  public SSLContext ofNodes(Path ca) throws IOException {
    try {
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(new KeyManager[] {new Keys()}, new TrustManager[] {trust("nodes.ca", ca)}, null);
      return context;
    } catch (GeneralSecurityException e) {
      throw new IOException("this Java can't make TLS contexts: " + e.getMessage(), e);
    }
  }

  private List<FileStamp> stamps() {
    return Stream.of(config.certificate(), config.key(), config.clientCa())
        .map(file -> file == null ? new FileStamp(null, null, 0) : FileStamp.of(file))
        .toList();
  }

  private Loaded now() {
    if (clock.getAsLong() - lookAgainNs >= 0) {
      look();
    }
    return loaded;
  }

  private synchronized void look() {
    if (clock.getAsLong() - lookAgainNs < 0) {
      return;
    }
    lookAgainNs = clock.getAsLong() + LOOK_EVERY_NS;
    List<FileStamp> now = stamps();
    if (now.equals(stamps)) {
      return;
    }
    try {
      Loaded next = load();
      before = loaded;
      loaded = next;
      LOG.info(
          "new connections get the certificate of '{}' until {}",
          config.certificate(),
          loaded.chain.getFirst().getNotAfter().toInstant());
      stamps = now;
    } catch (IOException e) {
      // Looked at again: somebody may be writing one file after the other.
      LOG.error("the new certificate can't be used and the old one stays: {}", e.getMessage());
    }
  }

  private Loaded load() throws IOException {
    X509Certificate[] chain = PemFiles.certificates("tls.certificate", config.certificate());
    PrivateKey key = PemFiles.privateKey("tls.key", config.key());
    if (!isPair(chain[0], key)) {
      throw new IOException(
          "tls.key '"
              + config.key()
              + "' is not the key of the first certificate in tls.certificate '"
              + config.certificate()
              + "'");
    }
    Path clientCa = config.clientCa();
    return new Loaded(
        "kvtier-" + loads++,
        List.of(chain),
        key,
        clientCa == null ? null : trust("tls.client_ca", clientCa));
  }

  private static boolean isPair(X509Certificate certificate, PrivateKey key) {
    String algorithm =
        switch (key.getAlgorithm()) {
          case "RSA" -> "SHA256withRSA";
          case "EC" -> "SHA256withECDSA";
          default -> key.getAlgorithm();
        };
    byte[] probe = {1, 2, 3};
    try {
      Signature signer = Signature.getInstance(algorithm);
      signer.initSign(key);
      signer.update(probe);
      byte[] signature = signer.sign();
      signer.initVerify(certificate.getPublicKey());
      signer.update(probe);
      return signer.verify(signature);
    } catch (GeneralSecurityException e) {
      return false;
    }
  }

  private static X509ExtendedTrustManager trust(String key, Path file) throws IOException {
    try {
      KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
      store.load(null, null);
      int number = 0;
      for (X509Certificate certificate : PemFiles.certificates(key, file)) {
        store.setCertificateEntry("ca-" + number++, certificate);
      }
      TrustManagerFactory factory =
          TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
      factory.init(store);
      for (TrustManager manager : factory.getTrustManagers()) {
        if (manager instanceof X509ExtendedTrustManager found) {
          return found;
        }
      }
      throw new IOException("this Java has no trust manager for certificates");
    } catch (GeneralSecurityException e) {
      throw new IOException(key + " '" + file + "': " + e.getMessage(), e);
    }
  }

  /** The key, as it is now. */
  final class Keys extends X509ExtendedKeyManager {
    @Override
    public @Nullable String chooseEngineServerAlias(
        String keyType, Principal @Nullable [] issuers, @Nullable SSLEngine engine) {
      Loaded chosen = now();
      String algorithm = chosen.key.getAlgorithm();
      // TLS 1.2 names kinds of key exchange, such as EC_EC, 1.3 kinds of keys.
      return keyType.startsWith(algorithm) || algorithm.startsWith("Ed") ? chosen.alias : null;
    }

    @Override
    public @Nullable String chooseServerAlias(
        String keyType, Principal @Nullable [] issuers, @Nullable Socket socket) {
      return chooseEngineServerAlias(keyType, issuers, null);
    }

    @Override
    public X509Certificate[] getCertificateChain(String alias) {
      return of(alias).chain.toArray(X509Certificate[]::new);
    }

    @Override
    public PrivateKey getPrivateKey(String alias) {
      return of(alias).key;
    }

    @Override
    public String[] getServerAliases(String keyType, Principal @Nullable [] issuers) {
      return new String[] {loaded.alias};
    }

    private Loaded of(String alias) {
      Loaded replaced = before;
      return alias.equals(replaced.alias) ? replaced : loaded;
    }

    @Override
    public String @Nullable [] getClientAliases(String keyType, Principal @Nullable [] issuers) {
      return getServerAliases(keyType, issuers);
    }

    @Override
    public @Nullable String chooseEngineClientAlias(
        String[] keyTypes, Principal @Nullable [] issuers, @Nullable SSLEngine engine) {
      for (String keyType : keyTypes) {
        String alias = chooseEngineServerAlias(keyType, issuers, engine);
        if (alias != null) {
          return alias;
        }
      }
      return null;
    }

    @Override
    public @Nullable String chooseClientAlias(
        String[] keyTypes, Principal @Nullable [] issuers, @Nullable Socket socket) {
      return chooseEngineClientAlias(keyTypes, issuers, null);
    }
  }

  /** Those whose certificates are trusted, as they are now. */
  private final class Trust extends X509ExtendedTrustManager {
    private X509ExtendedTrustManager current() throws CertificateException {
      X509ExtendedTrustManager trust = now().trust;
      if (trust == null) {
        throw new CertificateException("nobody is trusted");
      }
      return trust;
    }

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String authType, Socket socket)
        throws CertificateException {
      current().checkClientTrusted(chain, authType, socket);
    }

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String authType, SSLEngine engine)
        throws CertificateException {
      current().checkClientTrusted(chain, authType, engine);
    }

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String authType)
        throws CertificateException {
      current().checkClientTrusted(chain, authType);
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String authType, Socket socket)
        throws CertificateException {
      throw new CertificateException("a server trusts no servers");
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String authType, SSLEngine engine)
        throws CertificateException {
      throw new CertificateException("a server trusts no servers");
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String authType)
        throws CertificateException {
      throw new CertificateException("a server trusts no servers");
    }

    @Override
    public X509Certificate[] getAcceptedIssuers() {
      X509ExtendedTrustManager trust = now().trust;
      return trust == null ? new X509Certificate[0] : trust.getAcceptedIssuers();
    }
  }
}
