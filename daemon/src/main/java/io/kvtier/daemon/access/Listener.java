package io.kvtier.daemon.access;

import io.kvtier.daemon.config.KvtierdConfig;
import io.kvtier.daemon.config.KvtierdConfig.AccessConfig;
import io.kvtier.daemon.config.KvtierdConfig.TlsConfig;
import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/**
 * A configured listener.
 *
 * @param name for people
 * @param section of the configuration
 * @param port 0: any free one
 * @param tls null for none
 */
public record Listener(
    String name, String section, boolean enabled, String host, int port, @Nullable TlsConfig tls) {
  private static final long START_TIMEOUT_S = 30;

  /** The listener of gRPC. */
  public static Listener grpc(KvtierdConfig config) {
    KvtierdConfig.GrpcConfig grpc = config.network().grpc();
    return new Listener(
        "gRPC",
        "grpc",
        grpc.enabled(),
        grpc.host(),
        grpc.port(),
        grpc.usesTls() ? config.network().tls() : null);
  }

  /** The listener of HTTP. */
  public static Listener http(KvtierdConfig config) {
    KvtierdConfig.HttpConfig http = config.network().http();
    return new Listener(
        "HTTP",
        "http",
        http.enabled(),
        http.host(),
        http.port(),
        http.usesTls() ? config.network().tls() : null);
  }

  /**
   * The place where it listens, after a check of who can reach that place.
   *
   * @throws IOException if it may not listen there, naming the keys to change
   */
  public Place judge(AccessConfig access) throws IOException {
    return new Place(this, ListenerRules.require(section, host, tls, access));
  }

  /**
   * The place where a listener listens.
   *
   * @param address the address of its host, which was checked; another lookup can return another
   *     address
   */
  public record Place(Listener listener, InetAddress address) {
    /**
     * Takes the port and gives it back: a daemon must know before it takes memory and disk space
     * that the port is in use. If another program takes the port afterwards, the start fails with
     * an equal message.
     *
     * @throws IOException naming the key to change
     */
    public void requireFree() throws IOException {
      try (ServerSocket socket = new ServerSocket()) {
        socket.bind(new InetSocketAddress(address, listener.port));
      } catch (BindException e) {
        throw unbound(e);
      }
    }

    /**
     * Waits until a server listens here.
     *
     * @throws IOException naming the key to change when it does not
     */
    public void await(CompletionStage<?> listening) throws IOException {
      try {
        var _ = listening.toCompletableFuture().get(START_TIMEOUT_S, TimeUnit.SECONDS);
      } catch (ExecutionException e) {
        Throwable cause = e.getCause();
        if (cause instanceof BindException) {
          throw unbound(cause);
        }
        throw new IOException(
            listener.name
                + " can't listen on "
                + listener.host
                + " ("
                + listener.section
                + ".host): "
                + cause,
            cause);
      } catch (TimeoutException e) {
        throw new IOException(
            listener.name + " could not listen within " + START_TIMEOUT_S + " s", e);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new IOException("interrupted while " + listener.name + " started", e);
      }
    }

    private IOException unbound(Throwable cause) {
      return new IOException(
          listener.name
              + " can't listen on "
              + ListenerRules.address(listener.host, listener.port)
              + ": "
              + cause.getMessage()
              + "; choose another "
              + listener.section
              + ".port (0: any free one) or "
              + listener.section
              + ".host, or set "
              + listener.section
              + ".enabled=false",
          cause);
    }
  }
}
