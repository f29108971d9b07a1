package io.kvtier.cli;

import io.kvtier.client.RemoteClient;
import java.nio.file.Path;
import java.time.Duration;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Option;

/**
 * Options for commands that ask a daemon over gRPC: its address, the token, and who signs its
 * certificate.
 */
final class AddressOption {
  @Option(
      names = "--address",
      paramLabel = "HOST:PORT",
      description =
          "Address of a daemon that the command asks over gRPC with TLS. Without this option, it"
              + " asks the daemon at the socket. grpc://HOST:PORT is for a daemon without TLS.")
  private @Nullable String address;

  @Option(
      names = "--token-file",
      paramLabel = "FILE",
      description = "With --address: file with the token that 'kvtier token make' printed.")
  private @Nullable Path tokenFile;

  @Option(
      names = "--ca",
      paramLabel = "FILE",
      description =
          "With --address: file with certificates in PEM, one of which has signed the daemon's."
              + " Default: the certificates that Java trusts.")
  private @Nullable Path authority;

  /** Whether the command asks a daemon over gRPC. */
  boolean isGiven() {
    if (address == null && (tokenFile != null || authority != null)) {
      throw new Failure(
          Failure.USAGE, "--token-file and --ca are for a daemon over gRPC: give --address, too");
    }
    return address != null;
  }

  /** A client of the daemon with the given address. */
  RemoteClient open(Duration timeout) {
    String given = address == null ? "" : address;
    try {
      RemoteClient.Builder builder =
          RemoteClient.builder(given.contains("://") ? given : "grpcs://" + given).timeout(timeout);
      if (tokenFile != null) {
        builder.tokenFile(tokenFile);
      }
      if (authority != null) {
        builder.authority(authority);
      }
      return builder.build();
    } catch (IllegalArgumentException e) {
      throw new Failure(Failure.USAGE, String.valueOf(e.getMessage()));
    }
  }
}
