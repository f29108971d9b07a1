package io.kvtier.daemon.access;

import io.netty.handler.ssl.SslProvider;
import io.vertx.core.net.JdkSSLEngineOptions;
import io.vertx.core.spi.tls.DefaultSslContextFactory;
import io.vertx.core.spi.tls.SslContextFactory;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.Set;
import javax.net.ssl.SSLServerSocketFactory;

/**
 * The JDK's TLS with the JDK's cipher suites, those with AES-128-GCM in front: a server takes the
 * first suite that its client knows. The JDK prefers AES-256, which costs more time for each block.
 * No attack on either is known. Vert.x itself keeps cipher suites in a set without an order.
 */
final class FastestSuites extends JdkSSLEngineOptions {
  private static final Set<String> SUITES = suites();

  private static Set<String> suites() {
    SSLServerSocketFactory jdk = (SSLServerSocketFactory) SSLServerSocketFactory.getDefault();
    Set<String> suites = new LinkedHashSet<>();
    Arrays.stream(jdk.getDefaultCipherSuites())
        .sorted(Comparator.comparing(suite -> !suite.contains("AES_128_GCM")))
        .forEach(suites::add);
    return suites;
  }

  @Override
  public FastestSuites copy() {
    return new FastestSuites();
  }

  @Override
  public SslContextFactory sslContextFactory() {
    return new DefaultSslContextFactory(SslProvider.JDK, false) {
      @Override
      public SslContextFactory enabledCipherSuites(Set<String> withoutOrder) {
        return super.enabledCipherSuites(SUITES);
      }
    }.enabledCipherSuites(Set.of());
  }
}
