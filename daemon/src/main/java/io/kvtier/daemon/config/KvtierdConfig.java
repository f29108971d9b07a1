package io.kvtier.daemon.config;

import java.nio.file.Path;
import java.util.List;

/**
 * The daemon's configuration, checked. Sizes in bytes, durations in ns. Every key stands in {@code
 * config/kvtier.yaml} with its default and its meaning.
 */
public record KvtierdConfig(
    SocketConfig socket,
    HostConfig host,
    SsdConfig ssd,
    CopyConfig copy,
    LimitsConfig limits,
    GrpcConfig grpc) {

  /** The local socket and who may use it. */
  public record SocketConfig(Path path, List<String> users, List<String> groups, int mode) {}

  /** The host tier. */
  public record HostConfig(long bytes, long slabBytes, String policy, double freeTarget) {
    /** How many slabs. */
    public int slabs() {
      return (int) (bytes / slabBytes);
    }
  }

  /** The SSD tier; no bytes, no tier. */
  public record SsdConfig(
      long bytes,
      Path directory,
      long fileBytes,
      String policy,
      String admission,
      int threads,
      int queueDepth) {
    /** How many files. */
    public int files() {
      return (int) (bytes / fileBytes);
    }
  }

  /** The pipeline that makes checksums. */
  public record CopyConfig(int threads, int queueDepth, int inlineBytes) {}

  /** The hard limits of the index and of sessions. */
  public record LimitsConfig(
      int blocksMax,
      int sessionsMax,
      int operationsMax,
      int operationsPerSessionMax,
      int holdsMax,
      int holdsPerSessionMax,
      long leaseNs,
      long leaseNsMax,
      long deadlineNs,
      long deadlineNsMax) {}

  /** The gRPC server. */
  public record GrpcConfig(boolean enabled, String host, int port, int threads, int chunkBytes) {}
}
