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
 * The daemon's configuration, checked. Sizes are in bytes, durations in ns. {@code
 * config/kvtier.yaml} holds every key with its default and its meaning.
 *
 * @param tenants those who share the daemon and do not see each other's blocks
 */
public record KvtierdConfig(
    SocketConfig socket,
    TiersConfig tiers,
    CopiesConfig copies,
    LimitsConfig limits,
    NetworkConfig network,
    List<TenantConfig> tenants,
    ReportsConfig reports) {

  /** The tiers below the GPU, and what plug-ins add to them. */
  public record TiersConfig(
      HostConfig host, SsdConfig ssd, ObjectConfig object, PluginsConfig plugins) {}

  /**
   * Copies within the machine.
   *
   * @param gpu to and from the GPUs of engines
   * @param checksums the pipeline that makes checksums
   */
  public record CopiesConfig(GpuConfig gpu, CopyConfig checksums) {}

  /**
   * How the daemon is reached over the network.
   *
   * @param tls for all listeners; null for none
   */
  public record NetworkConfig(
      GrpcConfig grpc, HttpConfig http, @Nullable TlsConfig tls, AccessConfig access) {}

  /**
   * What the daemon tells about its work.
   *
   * @param events null where there is no publisher
   * @param settings all keys, for operators who ask
   */
  public record ReportsConfig(
      @Nullable EventsConfig events,
      TracesConfig traces,
      LogConfig log,
      List<LoadedConfig.Entry> settings) {}

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

  /** The kind of the host tier's ledger. */
  public enum HostLedger {
    /** A row for each slot, in the memory that outlives the daemon. */
    MAPPED,
    /** A Chronicle map. */
    CHRONICLE
  }

  /** The host tier. */
  public record HostConfig(
      HostMemory memory, String policy, double freeTarget, HostKeeping keeping) {}

  /**
   * The memory of the host tier.
   *
   * @param hugePages whether huge pages are put under the memory in the background
   */
  public record HostMemory(long bytes, long slabBytes, boolean hugePages) {
    /** How many slabs the memory has. */
    public int slabs() {
      return (int) (bytes / slabBytes);
    }
  }

  /**
   * How host memory outlives the daemon.
   *
   * @param keepNs how long the memory stays after the daemon has ended; 0: not at all
   * @param directory of the ledger
   */
  public record HostKeeping(long keepNs, Path directory, HostLedger ledger) {}

  /** The SSD tier; there is none where its space has 0 bytes. */
  public record SsdConfig(
      SsdSpace space,
      String policy,
      String admission,
      SsdWriting writing,
      SsdRates rates,
      SsdPipeline pipeline) {
    /** How many files there are, or as much space in RocksDB, which needs the other half itself. */
    public int files() {
      return (int) (space.bytes / (writing.engine == SsdEngine.ROCKSDB ? 2 : 1) / space.fileBytes);
    }
  }

  /**
   * The space of the SSD tier.
   *
   * @param directories one for each device; files are spread over the directories in turn
   */
  public record SsdSpace(long bytes, List<Path> directories, long fileBytes) {}

  /**
   * How blocks are written to SSD.
   *
   * @param codec encodes the blocks
   * @param survivesPowerLoss whether a store is acknowledged only when the device has it for good
   */
  public record SsdWriting(SsdEngine engine, BlockCodec codec, boolean survivesPowerLoss) {}

  /**
   * Limits of background reads and of wear.
   *
   * @param scrubBytesPerSecond how fast stored blocks are read and verified in the background
   * @param writeBytesPerDay how much is written, at an even rate; 0: no limit
   */
  public record SsdRates(long scrubBytesPerSecond, long writeBytesPerDay) {}

  /** The threads and the queue of each device. */
  public record SsdPipeline(int threads, int queueDepth) {}

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
   * Which blocks are uploaded.
   *
   * @param admission the words of an admission policy
   * @param spillBytes memory for blocks on their way from SSD to the object store
   */
  public record ObjectUploads(String admission, long spillBytes) {}

  /**
   * How the objects of all nodes are kept within their limits.
   *
   * @param node the name of this node
   * @param bytesMax of all nodes' blocks; 0 for no limit
   * @param everyNs how often a node looks for objects to delete
   * @param graceNs objects younger than that stay
   * @param usesEveryNs how often the node tells its uses; 0 for never
   */
  public record ObjectCare(
      String node,
      long bytesMax,
      long everyNs,
      long graceNs,
      int callsPerSecond,
      long usesEveryNs) {}

  /**
   * Where this node remembers what it stored.
   *
   * @param bytesMax 0 for no ledger
   * @param ageNsMax older entries are not believed
   */
  public record ObjectLedger(Path directory, long bytesMax, long ageNsMax) {}

  /**
   * How objects are encrypted.
   *
   * @param key encrypts and decrypts
   * @param readKeys decrypt objects that other keys encrypted
   */
  public record ObjectEncryption(
      KeySource key, List<KeySource> readKeys, boolean readsUnencrypted) {}

  /**
   * What is remembered of the objects that are there, and of those that are not.
   *
   * @param bytesMax memory for it
   * @param presentNs for how long an object is believed to be there
   * @param absentNs for how long an object is believed to be absent
   * @param probes keys that are looked for at a time
   */
  public record ObjectPresence(
      long bytesMax, long presentNs, long absentNs, int probes, long probeTimeoutNs) {}

  /**
   * The object tier.
   *
   * @param encryption null for none
   */
  public record ObjectConfig(
      ObjectPlace place,
      ObjectUploads uploads,
      ObjectCare care,
      ObjectLedger ledger,
      @Nullable ObjectEncryption encryption,
      ObjectPipelineOptions pipeline,
      ObjectPresence presence) {}

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

  /**
   * The hard limits of the index and of sessions.
   *
   * @param blocksMax blocks of all tiers
   * @param annotationBytes memory for the annotations of blocks
   */
  public record LimitsConfig(
      int blocksMax,
      long annotationBytes,
      SessionLimits sessions,
      OperationLimits operations,
      TimeLimits times) {}

  /**
   * Limits of sessions and of their request rings.
   *
   * @param max how many sessions there can be
   * @param ringBytesMax memory for the rings of all sessions
   */
  public record SessionLimits(int max, long ringBytesMax) {}

  /** Limits of the operations under way and of the blocks that clients hold. */
  public record OperationLimits(int max, int maxPerSession, int holdsMax, int holdsMaxPerSession) {}

  /** How long leases, reservations and requests last, unless asked otherwise, and at most. */
  public record TimeLimits(
      long leaseNs, long leaseNsMax, long reservationNs, long deadlineNs, long deadlineNsMax) {}

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
   * The publisher of events.
   *
   * @param namespaces whose blocks are told of; empty: all
   * @param intervalNs between two batches
   */
  public record EventsConfig(
      EventEndpoints endpoints,
      EventFormat format,
      List<String> namespaces,
      EventRanks ranks,
      long intervalNs,
      EventBuffers buffers) {}

  /**
   * The endpoints of rank 0. The ports of the other ranks follow.
   *
   * @param publish where events are published
   * @param connects whether consumers listen on the endpoint, and the publisher connects to them
   * @param replay empty: nothing is replayed
   * @param engine of the engine's own events; empty: none
   */
  public record EventEndpoints(String publish, boolean connects, String replay, String engine) {}

  /**
   * How events are written.
   *
   * @param hashesAreBytes whether block hashes are bytes, and not 64-bit integers
   */
  public record EventFormat(
      String topic, EventForm form, boolean hashesAreBytes, EventMedia media) {}

  /** The names of the tiers in events; empty: nobody is told of that tier. */
  public record EventMedia(String host, String ssd, String object) {}

  /** The ranks of the engine: their count, and the number of the first one. */
  public record EventRanks(int first, int count) {}

  /**
   * What waits for the publisher, for consumers and for replays.
   *
   * @param queueBytes between the index and the publisher, a power of two
   * @param highWaterMark messages that wait for a slow consumer
   */
  public record EventBuffers(
      long queueBytes, int replayBatches, long replayBytes, int highWaterMark) {}

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
