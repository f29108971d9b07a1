package io.kvtier.daemon.config;

import io.kvtier.daemon.plugins.Plugins;
import io.kvtier.protocol.access.Role;
import io.kvtier.tiers.codec.BlockCodec;
import io.kvtier.tiers.gpu.CopyOptions;
import io.kvtier.tiers.object.KeySource;
import io.kvtier.tiers.object.ObjectPipelineOptions;
import io.kvtier.tiers.object.S3Options;
import io.kvtier.tiers.ssd.SsdEngine;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The daemon's configuration, checked. Sizes in bytes, durations in ns. Every key stands in {@code
 * config/kvtier.yaml} with its default and its meaning.
 */
public record KvtierdConfig(
    SocketConfig socket,
    HostConfig host,
    SsdConfig ssd,
    ObjectConfig object,
    GpuConfig gpu,
    CopyConfig copy,
    LimitsConfig limits,
    GrpcConfig grpc,
    HttpConfig http,
    @Nullable TlsConfig tls,
    AccessConfig access,
    List<TenantConfig> tenants,
    @Nullable EventsConfig events,
    TracesConfig traces,
    LogConfig log,
    PluginsConfig plugins,
    List<LoadedConfig.Entry> settings) {

  /**
   * Plug-ins.
   *
   * @param plugins those that were loaded
   * @param sources of blocks, in the order in which they are asked
   */
  public record PluginsConfig(Plugins plugins, List<SourceConfig> sources) {
    public PluginsConfig {
      sources = List.copyOf(sources);
    }
  }

  /**
   * A source of blocks that a plug-in provides.
   *
   * @param name of the provider
   * @param threads that read
   * @param options of the provider
   */
  public record SourceConfig(String name, int threads, Map<String, String> options) {
    public SourceConfig {
      options = Map.copyOf(options);
    }
  }

  /** The local socket and who may use it. */
  public record SocketConfig(Path path, List<String> users, List<String> groups, int mode) {}

  /** How it is written down what stands in memory. */
  public enum HostLedger {
    /** In the memory that stays, a row for each slot. */
    MAPPED,
    /** In a Chronicle map. */
    CHRONICLE
  }

  /**
   * The host tier.
   *
   * @param hugePages whether huge pages are put under the memory in the background
   * @param keepNs how long the memory stays when the daemon has ended; 0: not at all
   * @param directory where it is written down what stands in it
   */
  public record HostConfig(
      long bytes,
      long slabBytes,
      boolean hugePages,
      String policy,
      double freeTarget,
      long keepNs,
      Path directory,
      HostLedger ledger) {
    /** How many slabs. */
    public int slabs() {
      return (int) (bytes / slabBytes);
    }
  }

  /**
   * The SSD tier; no bytes, no tier.
   *
   * @param directories one a device; files lie in them in turn
   * @param codec what blocks are written with
   * @param survivesPowerLoss whether a store is acknowledged only when the device has it for good
   * @param scrubBytesPerSecond how fast what is stored is read and verified in the background
   * @param writeBytesPerDay how much is written, at an even rate; 0: no limit
   */
  public record SsdConfig(
      long bytes,
      List<Path> directories,
      long fileBytes,
      String policy,
      String admission,
      SsdEngine engine,
      BlockCodec codec,
      boolean survivesPowerLoss,
      long scrubBytesPerSecond,
      long writeBytesPerDay,
      int threads,
      int queueDepth) {
    /** How many files, or as much as they in RocksDB, which needs the other half for itself. */
    public int files() {
      return (int) (bytes / (engine == SsdEngine.ROCKSDB ? 2 : 1) / fileBytes);
    }
  }

  /** Where objects are kept. */
  public sealed interface ObjectPlace {
    /** Nowhere: there is no such tier. */
    record None() implements ObjectPlace {}

    /**
     * In a folder.
     *
     * @param mode of the folders that are made there; files have what of it is for files
     */
    record Folder(Path path, int mode) implements ObjectPlace {}

    /** By a server that speaks S3. */
    record S3(S3Options options) implements ObjectPlace {}
  }

  /**
   * How the bytes of the object tier are looked after.
   *
   * @param everyNs how often
   * @param graceNs what is younger stays
   * @param usesEveryNs how often the node tells its uses; 0 for never
   */
  public record ObjectCare(long everyNs, long graceNs, int callsPerSecond, long usesEveryNs) {}

  /**
   * How objects are encrypted.
   *
   * @param key to write with
   * @param readKeys to read with, too
   */
  public record ObjectEncryption(
      KeySource key, List<KeySource> readKeys, boolean readsUnencrypted) {}

  /**
   * The object tier.
   *
   * @param bytes the most of all nodes' blocks; 0 for no limit
   * @param care how that is looked after
   * @param node the name of this node
   * @param directory where it is remembered what this node stored
   * @param ledgerBytes how much of it; 0 for nothing
   * @param encryption null for none
   * @param presenceBytes memory for what is known to be there, or not
   * @param presentNs for how long what is there is believed to be
   * @param absentNs the same of what is not
   * @param probes keys that are looked for at a time
   * @param spillBytes memory for blocks on their way from SSD
   */
  public record ObjectConfig(
      ObjectPlace place,
      String admission,
      long bytes,
      ObjectCare care,
      String node,
      Path directory,
      long ledgerBytes,
      long ledgerAgeNs,
      @Nullable ObjectEncryption encryption,
      ObjectPipelineOptions pipeline,
      long presenceBytes,
      long presentNs,
      long absentNs,
      int probes,
      long probeTimeoutNs,
      long spillBytes) {}

  /**
   * Copies to and from the GPUs of engines.
   *
   * @param enabled false: GPUs are not even looked for
   * @param copies of each direction of a GPU
   * @param restart whether the daemon starts anew after an error that only a new process mends
   */
  public record GpuConfig(boolean enabled, CopyOptions copies, boolean restart) {}

  /** The pipeline that makes checksums. */
  public record CopyConfig(int threads, int queueDepth, int inlineBytes) {}

  /** The hard limits of the index and of sessions. */
  public record LimitsConfig(
      int blocksMax,
      long annotationBytes,
      int sessionsMax,
      long ringBytesMax,
      int operationsMax,
      int operationsPerSessionMax,
      int holdsMax,
      int holdsPerSessionMax,
      long leaseNs,
      long leaseNsMax,
      long reservationNs,
      long deadlineNs,
      long deadlineNsMax) {}

  /** Whose expectations events meet, where nothing else is said. */
  public enum EventConsumer {
    VLLM,
    DYNAMO,
    LLM_D
  }

  /** How events are written. */
  public enum EventForm {
    /** A batch is an array, its events are maps. */
    MAP,
    /** Batch and events are maps. */
    NAMED,
    /** Batch and events are arrays. */
    POSITIONAL
  }

  /**
   * The publisher of events; without an endpoint there is none.
   *
   * @param endpoint of rank 0; the ports of the others follow
   * @param connects whether consumers listen there, and not the publisher
   * @param replayEndpoint empty: nothing is replayed
   * @param hostMedium the names of the tiers; empty: nobody is told of that tier
   * @param isBytes whether block hashes are bytes, and not 64-bit integers
   * @param namespaces whose blocks are told of; empty: all
   * @param rankFirst the number of the first rank
   * @param queueBytes between the index and the publisher, a power of two
   * @param engineEndpoint of the engine's own events, of rank 0; empty: none
   */
  public record EventsConfig(
      String endpoint,
      boolean connects,
      String replayEndpoint,
      String topic,
      EventForm form,
      boolean isBytes,
      String hostMedium,
      String ssdMedium,
      String objectMedium,
      List<String> namespaces,
      int rankFirst,
      int ranks,
      long intervalNs,
      long queueBytes,
      int replayBatches,
      long replayBytes,
      int highWaterMark,
      String engineEndpoint) {}

  /**
   * The gRPC server.
   *
   * @param usesTls whether it speaks TLS where there is a certificate
   */
  public record GrpcConfig(
      boolean enabled,
      String host,
      int port,
      boolean usesTls,
      int threads,
      int chunkBytes,
      ListenerLimits limits) {}

  /**
   * What callers can take of a listener.
   *
   * @param connectionsPerPeer of one address; 0: no limit
   * @param firstCallNs how long a connection may take for its first call
   * @param idleNs how long it may be without one later; 0: for ever
   * @param callsPerSecond of one address; 0: no limit
   */
  public record ListenerLimits(
      int connections, int connectionsPerPeer, long firstCallNs, long idleNs, int callsPerSecond) {}

  /**
   * TLS, for all listeners.
   *
   * @param clientCa whose certificates callers must show; null: they need none
   */
  public record TlsConfig(
      Path certificate, Path key, @Nullable Path clientCa, long handshakeTimeoutNs) {}

  /**
   * Who may do what over the network.
   *
   * @param tokens null: callers need none
   * @param withoutToken what callers may where they need none
   */
  public record AccessConfig(@Nullable Path tokens, Role withoutToken) {}

  /**
   * One of those who share the daemon and do not see each other's blocks.
   *
   * @param users names or numbers of local users who belong to it, and of groups
   * @param weight of its share of devices
   */
  public record TenantConfig(
      String name,
      List<String> users,
      List<String> groups,
      long hostBytes,
      long ssdBytes,
      int weight) {}

  /**
   * The HTTP server for operators.
   *
   * @param hosts names by which callers know it, besides its addresses, localhost and host
   * @param usesTls whether it speaks TLS where there is a certificate
   */
  public record HttpConfig(
      boolean enabled, String host, int port, List<String> hosts, boolean usesTls) {
    /** Copies the names. */
    public HttpConfig {
      hosts = List.copyOf(hosts);
    }
  }

  /**
   * Spans of requests.
   *
   * @param endpoint where they are sent; empty: nowhere
   * @param sample the share of the requests without a trace context of which there are spans
   */
  public record TracesConfig(String endpoint, double sample) {}

  /** How a line of the log is written. */
  public enum LogFormat {
    /** A line of words. */
    HUMAN,
    /** A line of JSON. */
    JSON
  }

  /**
   * The log.
   *
   * @param level what is less important is left out
   * @param burst so many lines of one cause are written within {@code burstNs}
   * @param burstNs 0: all are
   */
  public record LogConfig(String level, LogFormat format, int burst, long burstNs) {}
}
