package io.kvtier.daemon.config;

import io.kvtier.daemon.config.ConfigYaml.Value;
import io.kvtier.daemon.config.KvtierdConfig.EventConsumer;
import io.kvtier.daemon.config.KvtierdConfig.EventForm;
import io.kvtier.policies.AdmissionPolicies;
import io.kvtier.policies.EvictionPolicies;
import io.kvtier.protocol.Secrets;
import io.kvtier.protocol.SocketPaths;
import io.kvtier.protocol.access.Role;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.files.ByteSize;
import io.kvtier.tiers.gpu.CopyOptions;
import io.kvtier.tiers.ssd.SsdEngine;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Reads the configuration: the embedded defaults, over them a file, over them single settings. All
 * mistakes are told at once, each with where it stands, the key, its value and what was expected.
 *
 * <p>A mistaken value is replaced by its default, so that the others can be checked; a check of two
 * keys is left out when one of them was mistaken.
 */
public final class ConfigLoader {
  private static final String DEFAULTS = "/kvtier.yaml";

  /** Stands before the variable that a value comes from. */
  static final String ENVIRONMENT = "environment ";

  private static final long MIB = 1L << 20;
  private static final int PORT_MAX = 65535;
  private static final Set<String> ANY_HOST = Set.of("tcp://*", "tcp://0.0.0.0");

  /** What comes from a GPU takes several, and the machine is the engine's, too. */
  private static final int COPY_THREADS_AUTO =
      Math.clamp(Runtime.getRuntime().availableProcessors() * 2 / 3, 1, 12);

  private final Map<String, Value> values;
  private final Map<String, Value> defaults = Embedded.VALUES;
  private final Set<String> mistaken = new HashSet<>();
  private final List<String> problems = new ArrayList<>();

  private ConfigLoader() {
    values = new LinkedHashMap<>(defaults);
  }

  /** The embedded defaults: they are read once. */
  private static final class Embedded {
    static final Map<String, Value> VALUES = read();

    private static Map<String, Value> read() {
      List<String> problems = new ArrayList<>();
      Map<String, Value> read = ConfigYaml.parse(defaults(), "the defaults", null, problems);
      if (!problems.isEmpty()) {
        throw new IllegalStateException(problems.toString());
      }
      return Collections.unmodifiableMap(read);
    }
  }

  /**
   * Loads and checks.
   *
   * @param file over the defaults; null for none
   * @param settings {@code key=value}, over the file
   */
  public static KvtierdConfig load(@Nullable Path file, List<String> settings)
      throws ConfigException {
    return ConfigSource.of(file, settings).load().config();
  }

  /** The same, with the environment between file and settings, and each value with its place. */
  static ConfigReading read(ConfigSource source) {
    ConfigLoader loader = new ConfigLoader();
    KnownKeys known = new KnownKeys(loader.defaults.keySet());
    Path file = source.file();
    if (file != null) {
      String yaml = ConfigYaml.text(file, loader.problems);
      loader.values.putAll(ConfigYaml.parse(yaml, file.toString(), known, loader.problems));
    }
    new EnvironmentKeys(loader.defaults.keySet())
        .settings(source.environment())
        .forEach((variable, setting) -> loader.set(setting, ENVIRONMENT + variable, known));
    source.settings().forEach(setting -> loader.set(setting, "--set", known));
    KvtierdConfig config = loader.build();
    return new ConfigReading(
        new LoadedConfig(config, loader.values, loader.defaults), loader.mistaken, loader.problems);
  }

  private void set(String setting, String where, KnownKeys known) {
    int equals = setting.indexOf('=');
    if (equals < 1) {
      problems.add("--set '" + setting + "': expected key=value, such as host.bytes=4GiB");
      return;
    }
    String key = setting.substring(0, equals);
    if (known.hasKey(key)) {
      values.put(key, Value.of(setting.substring(equals + 1), where));
    } else {
      problems.add(where + ": " + known.problem(key));
    }
  }

  /** The embedded configuration file. */
  public static String defaults() {
    try (InputStream in = ConfigLoader.class.getResourceAsStream(DEFAULTS)) {
      if (in == null) {
        throw new IllegalStateException(
            "the embedded configuration " + DEFAULTS + " is missing from the class path");
      }
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new IllegalStateException("the embedded configuration can't be read", e);
    }
  }

  // ---- building
  // ------------------------------------------------------------------------------------------------

  private KvtierdConfig build() {
    // First: the other sections name what plug-ins bring.
    KvtierdConfig.PluginsConfig plugins = new PluginSection(this).read();
    return new KvtierdConfig(
        socket(),
        host(),
        ssd(),
        new ObjectSection(this).read(),
        gpu(),
        copy(),
        limits(),
        grpc(),
        http(),
        tls(),
        access(),
        tenants(),
        events(),
        traces(),
        log(),
        plugins,
        LoadedConfig.entries(values, defaults));
  }

  private KvtierdConfig.SocketConfig socket() {
    Path path = get("socket.path", Path::of, "a path");
    int mode =
        get("socket.mode", ConfigLoader::fileMode, "an octal file mode up to 0777, such as 0660");
    return new KvtierdConfig.SocketConfig(
        path.toString().isEmpty() ? SocketPaths.defaultPath() : path,
        peers("socket.users"),
        peers("socket.groups"),
        mode);
  }

  private static int fileMode(String text) {
    int mode = Integer.parseInt(text, 8);
    if (mode < 0 || mode > 0777) {
      throw new IllegalArgumentException();
    }
    return mode;
  }

  /** Names, some with a role behind a colon. Whether there are such users, the machine tells. */
  private List<String> peers(String key) {
    List<String> peers = list(key);
    for (String peer : peers) {
      int colon = peer.indexOf(':');
      require(
          key,
          colon != 0 && (colon < 0 || Role.ofWord(peer.substring(colon + 1)) != null),
          "names or numbers, and behind a colon the role of one that has another than write: read,"
              + " write or admin");
    }
    return mistaken.contains(key) ? List.of() : peers;
  }

  private KvtierdConfig.HostConfig host() {
    long slab = size("host.slab_bytes", MIB, 1L << 40);
    long bytes = size("host.bytes", 0, 1L << 50);
    requireMultiple("host.slab_bytes", slab, 4096, "4KiB");
    // None at all is no multiple here.
    requireMultiple("host.bytes", Math.max(1, bytes), slab, "host.slab_bytes");
    boolean hugePages = get("host.huge_pages", ConfigLoader::bool, "true or false");
    String policy = policy("host.policy");
    double free = get("host.free_target", Double::parseDouble, "a fraction such as 0.02");
    require("host.free_target", free >= 0 && free <= 0.25, "0 to 0.25");
    long keep = get("host.keep", ConfigLoader::orNever, "a duration such as 10min, or 0");
    Path directory = get("host.directory", Path::of, "a path");
    KvtierdConfig.HostLedger ledger =
        get("host.ledger", ConfigLoader::hostLedger, "mapped or chronicle");
    return new KvtierdConfig.HostConfig(
        bytes, slab, hugePages, policy, free, keep, directory, ledger);
  }

  private KvtierdConfig.SsdConfig ssd() {
    long file = size("ssd.file_bytes", MIB, 1L << 40);
    long bytes = size("ssd.bytes", 0, 1L << 50);
    requireMultiple("ssd.file_bytes", file, 4096, "4KiB");
    requireMultiple("ssd.bytes", bytes, file, "ssd.file_bytes");
    List<Path> directories = new ArrayList<>();
    for (String directory : list("ssd.directory")) {
      directories.add(path("ssd.directory", directory));
    }
    if (directories.isEmpty()) {
      directories.add(SocketPaths.defaultDataDirectory().resolve("ssd"));
    }
    require(
        "ssd.directory",
        bytes == 0
            || directories.size() <= bytes / file
            || isMistaken("ssd.bytes")
            || isMistaken("ssd.file_bytes"),
        "at most one directory for each file of ssd.file_bytes");
    require(
        "ssd.directory",
        directories.stream().map(one -> one.toAbsolutePath().normalize()).distinct().count()
            == directories.size(),
        "each directory once");
    SsdEngine engine = get("ssd.engine", SsdEngine::of, "an engine");
    require(
        "ssd.bytes",
        engine != SsdEngine.ROCKSDB || bytes == 0 || bytes / file >= 8L * directories.size(),
        "0, or at least 8 times ssd.file_bytes for each directory where ssd.engine is rocksdb");
    return new KvtierdConfig.SsdConfig(
        bytes,
        List.copyOf(directories),
        file,
        policy("ssd.policy"),
        admission("ssd.admission"),
        engine,
        get("ssd.codec", BlockCodecs::create, "none, zstd or planes, with /LEVEL if wanted"),
        get("ssd.durability", ConfigLoader::survivesPowerLoss, "kill or power"),
        size("ssd.scrub_bytes_per_second", 0, 1L << 40),
        size("ssd.write_bytes_per_day", 0, 1L << 60),
        number("ssd.threads", 1, 256),
        number("ssd.queue_depth", 1, 65536));
  }

  static long orNever(String text) {
    return text.equals("0") ? 0 : Units.nanoseconds(text);
  }

  private static boolean survivesPowerLoss(String text) {
    return switch (text) {
      case "kill" -> false;
      case "power" -> true;
      default -> throw new IllegalArgumentException();
    };
  }

  private static KvtierdConfig.HostLedger hostLedger(String text) {
    return switch (text) {
      case "mapped" -> KvtierdConfig.HostLedger.MAPPED;
      case "chronicle" -> KvtierdConfig.HostLedger.CHRONICLE;
      default -> throw new IllegalArgumentException();
    };
  }

  Path path(String key, String text) {
    try {
      return Path.of(text);
    } catch (InvalidPathException e) {
      require(key, false, "paths");
      return Path.of(".");
    }
  }

  private KvtierdConfig.GpuConfig gpu() {
    CopyOptions usual = CopyOptions.DEFAULT;
    // Two directions, each with its slots.
    int slots = 2 * usual.slots();
    long staging = size("gpu.staging_bytes", (long) slots << 16, (long) slots << 28);
    requireMultiple("gpu.staging_bytes", staging, (long) slots << 12, "8 pages");
    return new KvtierdConfig.GpuConfig(
        get("gpu.enabled", ConfigLoader::autoOrOff, "auto or off"),
        new CopyOptions(
            usual.slots(),
            (int) (staging / slots),
            usual.slotRuns(),
            number("gpu.thread_blocks", 1, 1024),
            usual.linkBlocks(),
            usual.depth()),
        get("gpu.restart", ConfigLoader::bool, "true or false"));
  }

  private static boolean autoOrOff(String text) {
    return switch (text) {
      case "auto" -> true;
      case "off" -> false;
      case "true", "on", "yes" -> throw new IllegalArgumentException("did you mean auto?");
      case "false", "no" -> throw new IllegalArgumentException("did you mean off?");
      default -> throw new IllegalArgumentException();
    };
  }

  private KvtierdConfig.CopyConfig copy() {
    return new KvtierdConfig.CopyConfig(
        copyThreads(),
        number("copy.queue_depth", 1, 65536),
        (int) size("copy.inline_bytes", 0, 1L << 30));
  }

  private int copyThreads() {
    int threads =
        get(
            "copy.threads",
            text -> text.equals("auto") ? COPY_THREADS_AUTO : Integer.parseInt(text),
            "auto or a whole number");
    require("copy.threads", threads >= 1 && threads <= 256, "auto, or a number from 1 to 256");
    return threads;
  }

  private KvtierdConfig.LimitsConfig limits() {
    long lease = duration("limits.lease");
    long leaseMax = duration("limits.lease_max");
    long reservation = duration("limits.reservation");
    long deadline = duration("limits.deadline");
    long deadlineMax = duration("limits.deadline_max");
    requireAtMost("limits.lease", lease, "limits.lease_max", leaseMax);
    requireAtMost("limits.deadline", deadline, "limits.deadline_max", deadlineMax);
    return new KvtierdConfig.LimitsConfig(
        number("limits.blocks", 64, 1 << 27),
        size("limits.annotation_bytes", 0, 1L << 36) & -4096L,
        number("limits.sessions", 1, 1 << 16),
        size("limits.ring_bytes", 1 << 20, 1L << 40),
        number("limits.operations", 1, 1 << 16),
        number("limits.operations_per_session", 1, 1 << 16),
        number("limits.holds", 64, 1 << 24),
        number("limits.holds_per_session", 1, 1 << 24),
        lease,
        leaseMax,
        reservation == 0 ? lease : reservation,
        deadline,
        deadlineMax);
  }

  private KvtierdConfig.@Nullable EventsConfig events() {
    String endpoint = endpoint("events.endpoint", true);
    String replay = endpoint("events.replay_endpoint", false);
    String engine = endpoint("events.engine_endpoint", false);
    boolean connects = get("events.connect", ConfigLoader::bool, "true or false");
    EventConsumer consumer =
        get("events.consumer", ConfigLoader::eventConsumer, "vllm, dynamo or llm-d");
    EventForm form =
        get(
            "events.form",
            text -> eventForm(text, consumer),
            "map, named or positional, or nothing for the consumer's own");
    boolean isBytes =
        get("events.hashes", text -> !text.equals(hashForm(text)), "integer or bytes");
    String topic = text("events.topic");
    require(
        "events.topic",
        endpoint.isEmpty() || consumer != EventConsumer.LLM_D || topic.matches("kv@[^@]+@[^@]+"),
        "kv@POD@MODEL, which llm-d takes apart");
    int ranks = number("events.ranks", 1, 1024);
    if (!mistaken.contains("events.endpoint")) {
      require(
          "events.replay_endpoint",
          replay.isEmpty() || !endpoint.isEmpty(),
          "nothing, where there is no events.endpoint");
      require(
          "events.engine_endpoint",
          engine.isEmpty() || !endpoint.isEmpty(),
          "nothing, where there is no events.endpoint");
    }
    require(
        "events.ranks",
        ranks == 1 || endpoint.isEmpty() || port(endpoint) > 0,
        "1, where the system chooses the port of events.endpoint: the ports of ranks follow it");
    requirePorts("events.endpoint", endpoint, ranks);
    requirePorts("events.replay_endpoint", replay, ranks);
    requirePorts("events.engine_endpoint", engine, ranks);
    require(
        "events.replay_endpoint",
        endpoint.isEmpty()
            || replay.isEmpty()
            || connects
            || Math.abs(port(replay) - port(endpoint)) >= ranks
            || !canShareAHost(replay, endpoint),
        "other ports than those of events.endpoint, '"
            + endpoint
            + "': each of events.ranks ("
            + ranks
            + ") has one of either, from there on");
    long queueBytes = size("events.queue_bytes", 1 << 16, 1L << 30);
    require("events.queue_bytes", Long.bitCount(queueBytes) == 1, "a power of two, such as 16MiB");
    KvtierdConfig.EventsConfig events =
        new KvtierdConfig.EventsConfig(
            endpoint,
            connects,
            replay,
            topic,
            form,
            isBytes,
            medium("events.media.host", List.of("CPU", "CPU", "cpu"), consumer),
            medium("events.media.ssd", List.of("DISK", "DISK", "disk"), consumer),
            medium("events.media.object", List.of("STORAGE", "EXTERNAL", "object"), consumer),
            list("events.namespaces"),
            number("events.rank_first", 0, 1 << 20),
            ranks,
            duration("events.interval"),
            queueBytes,
            number("events.replay_batches", 1, 1 << 24),
            size("events.replay_bytes", 1 << 16, 1L << 40),
            number("events.high_water_mark", 1, 1 << 24),
            engine);
    return endpoint.isEmpty() ? null : events;
  }

  private String endpoint(String key, boolean mayBeChosenByTheSystem) {
    return get(
        key,
        text -> {
          if (!text.isEmpty()
              && (!text.matches("tcp://.+:([0-9]{1,5}|\\*)")
                  || port(text) > PORT_MAX
                  || (port(text) == 0 && !mayBeChosenByTheSystem))) {
            throw new IllegalArgumentException();
          }
          return text;
        },
        mayBeChosenByTheSystem
            ? "tcp://HOST:PORT, such as tcp://*:5557, or nothing"
            : "tcp://HOST:PORT with the port's number, or nothing");
  }

  /** The port of an endpoint; 0 where the system chooses it, and where there is no endpoint. */
  private static int port(String endpoint) {
    String port = endpoint.substring(endpoint.lastIndexOf(':') + 1);
    return port.isEmpty() || port.equals("*") ? 0 : Integer.parseInt(port);
  }

  private void requirePorts(String key, String endpoint, int ranks) {
    int most = PORT_MAX + 1 - ranks;
    require(
        key,
        port(endpoint) <= most,
        "a port up to " + most + ": each of events.ranks (" + ranks + ") has one, from there on");
  }

  private static boolean canShareAHost(String endpoint, String other) {
    String host = endpoint.substring(0, endpoint.lastIndexOf(':'));
    String otherHost = other.substring(0, other.lastIndexOf(':'));
    return host.equals(otherHost) || ANY_HOST.contains(host) || ANY_HOST.contains(otherHost);
  }

  private static EventConsumer eventConsumer(String text) {
    return switch (text) {
      case "vllm" -> EventConsumer.VLLM;
      case "dynamo" -> EventConsumer.DYNAMO;
      case "llm-d" -> EventConsumer.LLM_D;
      default -> throw new IllegalArgumentException();
    };
  }

  private static EventForm eventForm(String text, EventConsumer consumer) {
    return switch (text) {
      case "" -> consumer == EventConsumer.LLM_D ? EventForm.POSITIONAL : EventForm.MAP;
      case "map" -> EventForm.MAP;
      case "named" -> EventForm.NAMED;
      case "positional" -> EventForm.POSITIONAL;
      default -> throw new IllegalArgumentException();
    };
  }

  /** Checks; gives back {@code integer}, whatever it is. */
  private static String hashForm(String text) {
    if (!text.equals("integer") && !text.equals("bytes")) {
      throw new IllegalArgumentException();
    }
    return "integer";
  }

  /** The consumer's name of a tier, or another one; empty for {@code none}. */
  private String medium(String key, List<String> usual, EventConsumer consumer) {
    String text = text(key);
    return switch (text) {
      case "" ->
          switch (consumer) {
            case VLLM -> usual.get(0);
            case DYNAMO -> usual.get(1);
            case LLM_D -> usual.get(2);
          };
      case "none" -> "";
      default -> text;
    };
  }

  private KvtierdConfig.GrpcConfig grpc() {
    return new KvtierdConfig.GrpcConfig(
        get("grpc.enabled", this::grpcIsOn, "auto, true or false"),
        text("grpc.host"),
        number("grpc.port", 0, 65535),
        get("grpc.tls", ConfigLoader::autoOrOff, "auto or off"),
        number("grpc.threads", 1, 64),
        (int) size("grpc.chunk_bytes", 4096, 3L << 20),
        listenerLimits("grpc."));
  }

  /** Whoever names where gRPC listens wants it; a port that nobody asked for stays closed. */
  private boolean grpcIsOn(String text) {
    return text.equals("auto") ? isGiven("grpc.host") || isGiven("grpc.port") : bool(text);
  }

  /** Whether somebody wrote a key down, and be it with its default. */
  private boolean isGiven(String key) {
    return !value(values, key).equals(value(defaults, key));
  }

  private KvtierdConfig.ListenerLimits listenerLimits(String section) {
    return new KvtierdConfig.ListenerLimits(
        number(section + "connections", 1, 1 << 20),
        number(section + "connections_per_peer", 0, 1 << 20),
        duration(section + "first_call"),
        get(section + "idle", ConfigLoader::orNever, "a duration such as 30min, or 0"),
        number(section + "calls_per_second", 0, 1 << 24));
  }

  private KvtierdConfig.@Nullable TlsConfig tls() {
    String certificate = text("tls.certificate");
    String key = text("tls.key");
    String clientCa = text("tls.client_ca");
    long handshake = positiveDuration("tls.handshake");
    require(
        "tls.key",
        certificate.isEmpty() == key.isEmpty(),
        certificate.isEmpty()
            ? "nothing, where there is no tls.certificate"
            : "the file of the private key of tls.certificate");
    require(
        "tls.client_ca",
        clientCa.isEmpty() || !certificate.isEmpty(),
        "nothing, where there is no tls.certificate");
    return certificate.isEmpty() || key.isEmpty()
        ? null
        : new KvtierdConfig.TlsConfig(
            path("tls.certificate", certificate),
            path("tls.key", key),
            clientCa.isEmpty() ? null : path("tls.client_ca", clientCa),
            handshake);
  }

  private KvtierdConfig.AccessConfig access() {
    String tokens = text("access.tokens");
    return new KvtierdConfig.AccessConfig(
        tokens.isEmpty() ? null : path("access.tokens", tokens),
        get("access.without_token", ConfigLoader::role, "none, read, write or admin"));
  }

  private static Role role(String text) {
    Role role = Role.ofWord(text);
    if (role == null) {
      throw new IllegalArgumentException();
    }
    return role;
  }

  private List<KvtierdConfig.TenantConfig> tenants() {
    String key = "tenants";
    try {
      return TenantList.parse(
          list(key),
          new TenantList.Space(
              Units.bytes(text("host.bytes")),
              Units.bytes(text("host.slab_bytes")),
              Units.bytes(text("ssd.bytes")),
              Units.bytes(text("ssd.file_bytes"))));
    } catch (IllegalArgumentException e) {
      require(key, false, String.valueOf(e.getMessage()));
      return List.of();
    }
  }

  private KvtierdConfig.HttpConfig http() {
    return new KvtierdConfig.HttpConfig(
        get("http.enabled", ConfigLoader::bool, "true or false"),
        text("http.host"),
        number("http.port", 0, 65535),
        list("http.hosts"),
        get("http.tls", ConfigLoader::autoOrOff, "auto or off"));
  }

  private KvtierdConfig.TracesConfig traces() {
    String endpoint =
        get(
            "traces.endpoint",
            ConfigLoader::tracesEndpoint,
            "a URL such as http://127.0.0.1:4318/v1/traces, or nothing");
    double sample = get("traces.sample", Double::parseDouble, "a share from 0 to 1, such as 0.001");
    require("traces.sample", sample >= 0 && sample <= 1, "a share from 0 to 1, such as 0.001");
    require(
        "traces.sample",
        sample == 0 || !endpoint.isEmpty(),
        "0, where there is no traces.endpoint");
    return new KvtierdConfig.TracesConfig(endpoint, sample);
  }

  private static String tracesEndpoint(String text) {
    if (text.isEmpty()) {
      return text;
    }
    URI uri = URI.create(text);
    if (!("http".equals(uri.getScheme()) || "https".equals(uri.getScheme()))
        || uri.getHost() == null
        || uri.getRawUserInfo() != null
        || uri.getRawPath().length() < 2) {
      throw new IllegalArgumentException();
    }
    return text;
  }

  private KvtierdConfig.LogConfig log() {
    return new KvtierdConfig.LogConfig(
        get("log.level", ConfigLoader::logLevel, "error, warn, info, debug or trace"),
        get("log.format", ConfigLoader::logFormat, "human or json"),
        number("log.burst", 1, 1_000_000),
        get("log.burst_time", ConfigLoader::orNever, "a duration such as 10s, or 0"));
  }

  private static String logLevel(String text) {
    if (!List.of("error", "warn", "info", "debug", "trace").contains(text)) {
      throw new IllegalArgumentException();
    }
    return text;
  }

  private static KvtierdConfig.LogFormat logFormat(String text) {
    return switch (text) {
      case "human" -> KvtierdConfig.LogFormat.HUMAN;
      case "json" -> KvtierdConfig.LogFormat.JSON;
      default -> throw new IllegalArgumentException();
    };
  }

  static boolean bool(String text) {
    return switch (text) {
      case "true" -> true;
      case "false" -> false;
      case "yes", "on", "True", "TRUE" -> throw new IllegalArgumentException("did you mean true?");
      case "no", "off", "False", "FALSE" ->
          throw new IllegalArgumentException("did you mean false?");
      default -> throw new IllegalArgumentException();
    };
  }

  // ---- values
  // ------------------------------------------------------------------------------------------------

  private static Value value(Map<String, Value> values, String key) {
    Value value = values.get(key);
    if (value == null) {
      throw new IllegalStateException("the embedded configuration has no key " + key);
    }
    return value;
  }

  String text(String key) {
    String text = value(values, key).text();
    if (text == null) {
      mistake(key, "one value, not a list");
      text = String.valueOf(value(values, key).text());
    }
    return text.trim();
  }

  /** Notes what is wrong with a key, and gives it its default. */
  private void mistake(String key, String expected) {
    Value value = value(values, key);
    String text = Secrets.hide(key, value.toString().trim());
    // Where nobody has set it, there is no line to look at: another key asks for it.
    problems.add(
        value.equals(value(defaults, key))
            ? key
                + (text.isEmpty() ? " is not set" : " is '" + text + "' by default")
                + ", expected "
                + expected
            : value.where() + ": " + key + " is '" + text + "', expected " + expected);
    mistaken.add(key);
    values.put(key, value(defaults, key));
  }

  boolean isMistaken(String key) {
    return mistaken.contains(key);
  }

  <T> T get(String key, Function<String, T> parser, String expected) {
    try {
      return parser.apply(text(key));
    } catch (IllegalArgumentException e) {
      boolean hasHint =
          e.getMessage() != null
              && !(e instanceof NumberFormatException || e instanceof InvalidPathException);
      mistake(key, expected + (hasHint ? "; " + e.getMessage() : ""));
      return parser.apply(text(key));
    }
  }

  void require(String key, boolean holds, String expected) {
    if (!holds && !mistaken.contains(key)) {
      mistake(key, expected);
    }
  }

  private void requireMultiple(String key, long value, long unit, String unitName) {
    if (!mistaken.contains(unitName)) {
      long below = value / unit * unit;
      require(
          key,
          value % unit == 0,
          "a multiple of "
              + unitName
              + (defaults.containsKey(unitName) ? " (" + ByteSize.words(unit) + ")" : "")
              + ", such as "
              + Units.formatBytes(below == 0 ? unit : below));
    }
  }

  void requireAtMost(String key, long value, String limitKey, long limit) {
    require(key, value > 0, "more than 0");
    if (!mistaken.contains(limitKey)) {
      require(key, value <= limit, "at most " + limitKey + " (" + text(limitKey) + ")");
    }
  }

  String admission(String key) {
    String admission = text(key);
    try {
      var _ = AdmissionPolicies.create(admission, 1);
    } catch (IllegalArgumentException e) {
      require(key, false, "an admission policy: " + e.getMessage());
    }
    return admission;
  }

  private String policy(String key) {
    String policy = text(key);
    try {
      var _ = EvictionPolicies.create(policy, 1, 1);
    } catch (IllegalArgumentException e) {
      require(key, false, "an eviction policy: " + e.getMessage());
    }
    return policy;
  }

  long size(String key, long min, long max) {
    long bytes = get(key, Units::bytes, "a size such as 512MiB or 4GiB");
    require(
        key,
        bytes >= min && bytes <= max,
        "a size from " + ByteSize.words(min) + " to " + ByteSize.words(max));
    return mistaken.contains(key) ? Units.bytes(text(key)) : bytes;
  }

  long duration(String key) {
    return get(key, Units::nanoseconds, "a duration such as 250ms or 30s");
  }

  /** A duration of what can't take no time at all. */
  long positiveDuration(String key) {
    long ns = duration(key);
    require(key, ns > 0, "more than 0");
    return mistaken.contains(key) ? Units.nanoseconds(text(key)) : ns;
  }

  int number(String key, int min, int max) {
    int number = get(key, Integer::parseInt, "a whole number");
    require(key, number >= min && number <= max, "a number from " + min + " to " + max);
    return mistaken.contains(key) ? Integer.parseInt(text(key)) : number;
  }

  List<String> list(String key) {
    Value value = value(values, key);
    if (value.items() != null) {
      return List.copyOf(value.items());
    }
    // One word of a command line or of the environment, with or without YAML's brackets.
    String text = String.valueOf(value.text()).strip();
    boolean isBracketed = text.startsWith("[") && text.endsWith("]");
    List<String> list = new ArrayList<>();
    for (String item : (isBracketed ? text.substring(1, text.length() - 1) : text).split(",", -1)) {
      if (!item.isBlank()) {
        list.add(item.trim());
      }
    }
    return list;
  }
}
