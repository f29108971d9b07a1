package io.kvtier.client;

import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/**
 * A client of a daemon: {@link KvtierClient} uses the shared memory of a daemon on this machine,
 * {@link RemoteClient} uses gRPC.
 */
public interface CacheClient extends AutoCloseable {
  /**
   * A client with the usual settings.
   *
   * @param place {@code grpcs://HOST[:PORT]} or {@code grpc://HOST[:PORT]} for a daemon by gRPC,
   *     else the path of a socket
   */
  static CacheClient open(String place) {
    return RemoteClient.isAddress(place)
        ? RemoteClient.builder(place).build()
        : KvtierClient.builder().socket(Path.of(place)).build();
  }

  /**
   * A namespace. It is registered now if the daemon answers, else by the next operation.
   *
   * @param blockBytes the bytes of each block
   * @param properties all that makes bytes interchangeable
   * @throws KvtierException when the daemon knows the namespace with other properties
   */
  CacheNamespace namespace(String name, long blockBytes, Map<String, String> properties);

  /** Whether the daemon answers; the detail is its version, or why it does not answer. */
  CompletableFuture<PingResult> ping();

  /** The daemon's state in JSON. */
  CompletableFuture<TextResult> stats();

  /** The daemon's counters by name; empty while it does not answer. */
  Map<String, Long> counters();

  boolean isConnected();

  /** The address of the daemon, or the path of its socket. */
  String place();

  @Override
  void close();
}
