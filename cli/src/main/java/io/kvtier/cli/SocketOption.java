package io.kvtier.cli;

import io.kvtier.client.KvtierClient;
import java.nio.file.Path;
import java.time.Duration;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Option;

/** Where a daemon is asked. */
final class SocketOption {
  @Option(
      names = "--socket",
      paramLabel = "PATH",
      description =
          "Path of the daemon's socket. Default: $KVTIER_SOCKET, else /run/kvtier/kvtier.sock if this"
              + " command is from a .deb or .tar.gz and the socket exists, else"
              + " $XDG_RUNTIME_DIR/kvtier.sock, else /tmp/kvtier-UID/kvtier.sock.")
  private @Nullable Path path;

  /** Whether the option was given. */
  boolean isGiven() {
    return path != null;
  }

  /**
   * A client that asks there.
   *
   * @param name what the daemon calls it
   * @throws Failure where the path is empty
   */
  KvtierClient open(String name, Duration timeout) {
    KvtierClient.Builder builder =
        KvtierClient.builder().name(name).timeout(timeout).connectTimeout(timeout);
    if (path != null) {
      if (path.toString().isEmpty()) {
        throw new Failure(
            Failure.USAGE,
            "--socket is empty: give the path of the daemon's socket, or leave the option out");
      }
      builder.socket(path);
    }
    return builder.build();
  }
}
