package io.kvtier.daemon.config;

import io.kvtier.daemon.member.Discovery;
import io.kvtier.daemon.plugins.Plugins;
import io.kvtier.protocol.access.Role;
import io.kvtier.tiers.codec.BlockCodec;
import io.kvtier.tiers.gpu.CopyOptions;
import io.kvtier.tiers.gpu.EncodingMode;
import io.kvtier.tiers.node.NodeAddress;
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
 * @param tenants groups of users who share the daemon and do not see each other's blocks
 */
public record KvtierdConfig(
    SocketConfig socket,
    TiersConfig tiers,
    CopiesConfig copies,
    LimitsConfig limits,
    NetworkConfig network,
    List<TenantConfig> tenants,
    ReportsConfig reports) {

  /** Memory for annotations: the ledger has a copy of them if memory outlives the daemon. */
  public long annotationBytes() {
    return limits.annotationBytes() * (tiers.host().keeping().keepNs() > 0 ? 2 : 1);
  }

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
      GrpcConfig grpc,
      HttpConfig http,
      @Nullable TlsConfig tls,
      AccessConfig access,
      NodesConfig nodes) {}

  /** How nodes prove to each other who they are. */
  public enum NodeSecurity {
    /** Each side shows a certificate, and a reader a token. */
    TLS_AND_TOKENS,
    /** Each side shows a certificate. */
    TLS_WITHOUT_TOKENS,
    /** Nobody shows anything, and nothing is encrypted. */
    PLAINTEXT_WITHOUT_TOKENS
  }

  /** Whether nodes keep a directory of their blocks together. */
  public enum NodeDirectoryUse {
    /** The directory begins when there are more nodes than can be asked. */
    AUTO,
    ON,
    OFF
  }

  /**
   * Other nodes, whose blocks this one reads and who read its blocks.
   *
   * @param listen where others read; null: they do not
   * @param peers where this daemon reads
   * @param members how nodes find each other; null: {@code peers} are all there are
   * @param certificateName whom the certificates of others name; empty: the host of their address
   * @param ca signs the certificates of all nodes; null without TLS
   * @param tokenFile has the token that this daemon shows; null for none
   * @param connections the maximum connections of others
   * @param sendBufferBytes the send buffer of a connection to another node; 0: the kernel chooses
   * @param ucxLibrary the library of UCX that moves blocks; null: blocks go over the connections
   * @param directoryBytes the memory for this node's part of the directory
   * @param pushedShare the share of a tenant's host memory that blocks of other nodes may fill
   * @param tokenlessRole what nodes may do here that show no token, because none is asked for
   */
  public record NodesConfig(
      String name,
      @Nullable NodeAddress listen,
      List<NodeAddress> peers,
      @Nullable MembersConfig members,
      NodeSecurity security,
      String certificateName,
      @Nullable Path ca,
      @Nullable Path tokenFile,
      int threads,
      int connections,
      long askNs,
      long fetchNs,
      int sendBufferBytes,
      @Nullable String ucxLibrary,
      NodeDirectoryUse directory,
      long directoryBytes,
      double pushedShare,
      Role tokenlessRole) {
    /** Whether there is anything to do. */
    public boolean isOn() {
      return listen != null || readsOthers();
    }

    /** Whether this daemon reads from other nodes. */
    public boolean readsOthers() {
      return !peers.isEmpty() || members != null;
    }
  }

  /**
   * Nodes that find each other.
   *
   * @param listen where members connect
   * @param advertised where others read, as they are told
   * @param cluster members of another name are ignored
   */
  public record MembersConfig(
      Discovery discovery, NodeAddress listen, NodeAddress advertised, String cluster) {}

  /**
   * Events, traces and the log.
   *
   * @param events null for no publisher
   * @param settings all keys with their values, for operators
   */
  public record ReportsConfig(
      @Nullable EventsConfig events,
      TracesConfig traces,
      LogConfig log,
      List<LoadedConfig.Entry> settings) {}

  /**
   * Plug-ins.
   *
   * @param plugins the loaded plug-ins
   * @param sources the sources of blocks, in the order in which they are asked
   */
  public record PluginsConfig(Plugins plugins, List<SourceConfig> sources) {
    public PluginsConfig {
      sources = List.copyOf(sources);
    }
  }

  /**
   * A source of blocks that a plug-in provides.
   *
   * @param name the provider's name
   * @param threads how many threads read
   * @param options the provider's options
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
   * @param usesNuma whether memory and threads are placed by NUMA nodes
   */
  public record HostMemory(long bytes, long slabBytes, boolean hugePages, boolean usesNuma) {
    /** How many slabs the memory has. */
    public int slabs() {
      return (int) (bytes / slabBytes);
    }
  }

  /**
   * How host memory outlives the daemon.
   *
   * @param keepNs how long the memory stays after the daemon has ended; 0: the memory is not kept
   * @param directory the folder of the ledger
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
    /**
     * The count of files. With RocksDB, files only count space, and RocksDB needs half of the space
     * itself.
     */
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
   * @param survivesPowerLoss whether a store is acknowledged only when it survives a loss of power
   */
  public record SsdWriting(SsdEngine engine, BlockCodec codec, boolean survivesPowerLoss) {}

  /**
   * Limits of background reads and of wear.
   *
   * @param scrubBytesPerSecond how fast stored blocks are read and verified in the background
   * @param writeBytesPerDay the bytes that are written in a day, at an even rate; 0: no limit
   */
  public record SsdRates(long scrubBytesPerSecond, long writeBytesPerDay) {}

  /** The threads and the queue of each device. */
  public record SsdPipeline(int threads, int queueDepth) {}

  /** The place of the objects. */
  public sealed interface ObjectPlace {
    /** No place: there is no object tier. */
    record None() implements ObjectPlace {}

    /**
     * A folder.
     *
     * @param mode the mode of folders that the daemon makes; files get the mode without the execute
     *     bits
     */
    record Folder(Path path, int mode) implements ObjectPlace {}

    /** A server that speaks S3. */
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
   * @param bytesMax the maximum size of all nodes' blocks; 0 for no limit
   * @param everyNs how often a node looks for objects to delete
   * @param graceNs younger objects stay
   * @param usesEveryNs how often the node writes its uses to the store; 0 for never
   */
  public record ObjectCare(
      String node,
      long bytesMax,
      long everyNs,
      long graceNs,
      int callsPerSecond,
      long usesEveryNs) {}

  /**
   * The ledger of the objects that this node has stored.
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
   * The memory of which objects are present and which are absent.
   *
   * @param bytesMax the maximum size of this memory
   * @param presentNs how long an object is believed to be present
   * @param absentNs how long an object is believed to be absent
   * @param probes the maximum lookups at a time
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
   * @param enabled false: the daemon does not look for GPUs
   * @param copies the options of each direction of a GPU
   * @param encoding when GPUs store blocks encoded
   * @param restart whether the daemon restarts after an error that only a new process can clear
   */
  public record GpuConfig(
      boolean enabled, CopyOptions copies, EncodingMode encoding, boolean restart) {}

  /** The pipeline that makes checksums. */
  public record CopyConfig(int threads, int queueDepth, int inlineBytes) {}

  /**
   * The hard limits of the index and of sessions.
   *
   * @param blocksMax the maximum blocks in all tiers
   * @param annotationBytes memory for the annotations of blocks
   * @param retainedShare the share of a tenant's host memory that it may retain
   */
  public record LimitsConfig(
      int blocksMax,
      long annotationBytes,
      double retainedShare,
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

  /** How long leases, retentions, reservations and requests last: by default, and at most. */
  public record TimeLimits(
      long leaseNs,
      long leaseNsMax,
      long retentionNsMax,
      long reservationNs,
      long deadlineNs,
      long deadlineNsMax) {}

  /** The consumer whose format events have by default. */
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
   * @param namespaces the namespaces whose blocks are published; empty: all
   * @param intervalNs the time between two batches
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
   * @param engine where the engine publishes its own events; empty: none
   */
  public record EventEndpoints(String publish, boolean connects, String replay, String engine) {}

  /**
   * How events are written.
   *
   * @param hashesAreBytes whether block hashes are bytes, and not 64-bit integers
   */
  public record EventFormat(
      String topic, EventForm form, boolean hashesAreBytes, EventMedia media) {}

  /** The names of the tiers in events; empty: the tier has no events. */
  public record EventMedia(String host, String ssd, String object) {}

  /** The ranks of the engine: their count, and the number of the first one. */
  public record EventRanks(int first, int count) {}

  /**
   * The buffers for the publisher, for consumers and for replays.
   *
   * @param queueBytes the size of the queue from the index to the publisher, a power of two
   * @param highWaterMark the maximum messages that wait for a slow consumer
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
   * Limits of a listener's connections and calls.
   *
   * @param connectionsPerPeer the maximum connections from one address; 0: no limit
   * @param firstCallNs how long a connection may stay without a first call
   * @param idleNs how long a connection may stay without another call; 0: no limit
   * @param callsPerSecond the maximum calls a second from one address; 0: no limit
   */
  public record ListenerLimits(
      int connections, int connectionsPerPeer, long firstCallNs, long idleNs, int callsPerSecond) {}

  /**
   * TLS, for all listeners.
   *
   * @param clientCa signs the certificates that callers must show; null: callers need no
   *     certificate
   */
  public record TlsConfig(
      Path certificate, Path key, @Nullable Path clientCa, long handshakeTimeoutNs) {}

  /**
   * The rights of callers over the network.
   *
   * @param tokens the file of tokens; null: callers need no token
   * @param withoutToken the role of callers if they need no token
   */
  public record AccessConfig(@Nullable Path tokens, Role withoutToken) {}

  /**
   * A tenant: a group of users who share the daemon with others and do not see the others' blocks.
   *
   * @param users names or numbers of the local users who belong to the tenant; {@code groups} names
   *     groups
   * @param weight the weight of the tenant's share of devices
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
   * @param hosts names that callers may use for the server, besides its addresses, localhost and
   *     host
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
   * @param endpoint where spans are sent; empty: nowhere
   * @param sample the share of requests without a trace context that get spans
   */
  public record TracesConfig(String endpoint, double sample) {}

  /** The form of a line of the log. */
  public enum LogFormat {
    /** A line of words. */
    HUMAN,
    /** A line of JSON. */
    JSON
  }

  /**
   * The log.
   *
   * @param level less important lines are left out
   * @param burst the maximum lines of one cause within {@code burstNs}
   * @param burstNs 0: all lines are written
   */
  public record LogConfig(String level, LogFormat format, int burst, long burstNs) {}
}
