package io.kvtier.daemon.config;

import io.kvtier.protocol.SocketPaths;
import io.kvtier.tiers.codec.BlockCodecs;
import io.kvtier.tiers.files.ByteSize;
import io.kvtier.tiers.ledger.PresenceLedger;
import io.kvtier.tiers.object.KeySource;
import io.kvtier.tiers.object.ObjectNames;
import io.kvtier.tiers.object.ObjectPipelineOptions;
import io.kvtier.tiers.object.PresenceCache;
import io.kvtier.tiers.object.S3Options;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/** Reads the keys that begin with {@code object}: the object tier. */
final class ObjectSection {
  // Budget of second tries of requests to the object store: each first try adds a tenth of a
  // second try, up to this number.
  private static final double RETRIES_SHARE = 0.1;
  private static final int RETRIES_SAVED = 20;

  private static final long KEY_COMMAND_NS = 30_000_000_000L;

  private final KeyReader keys;

  ObjectSection(KeyReader keys) {
    this.keys = keys;
  }

  /** Reads and checks the keys. */
  KvtierdConfig.ObjectConfig read() {
    long present = keys.duration("object.present_for");
    long absent = keys.duration("object.absent_for");
    keys.requireAtMost("object.absent_for", absent, "object.present_for", present);
    KvtierdConfig.ObjectPlace place = objectPlace();
    String admission = keys.admission("object.admission");
    KvtierdConfig.ObjectCare care = objectCare();
    KvtierdConfig.ObjectLedger ledger =
        new KvtierdConfig.ObjectLedger(
            keys.text("object.directory").isEmpty()
                ? SocketPaths.defaultDataDirectory().resolve("object")
                : keys.get("object.directory", Path::of, "a path"),
            ledgerBytes(),
            keys.duration("object.ledger_age"));
    KvtierdConfig.ObjectEncryption encryption = objectEncryption();
    ObjectPipelineOptions pipeline = objectPipeline();
    KvtierdConfig.ObjectPresence presence =
        new KvtierdConfig.ObjectPresence(
            keys.size("object.presence_bytes", PresenceCache.BYTES_PER_KEY, 1L << 40),
            present,
            absent,
            keys.number("object.probes", 1, 4096),
            keys.positiveDuration("object.probe_timeout"));
    return new KvtierdConfig.ObjectConfig(
        place,
        new KvtierdConfig.ObjectUploads(admission, keys.size("object.spill_bytes", 0, 1L << 40)),
        care,
        ledger,
        encryption,
        pipeline,
        presence);
  }

  private KvtierdConfig.ObjectCare objectCare() {
    long bytes = objectBytes();
    long every = keys.positiveDuration("object.gc_every");
    long grace = keys.duration("object.gc_grace");
    int calls = keys.number("object.gc_calls_per_second", 1, 1_000_000);
    long uses = keys.durationOrZero("object.uses_every", "5min");
    String node =
        keys.get(
            "object.node",
            ObjectSection::nodeName,
            "letters, digits, '.', '_' or '-', and no '.' first");
    return new KvtierdConfig.ObjectCare(node, bytes, every, grace, calls, uses);
  }

  private static String nodeName(String text) {
    if (!text.matches("([A-Za-z0-9_-][A-Za-z0-9._-]*)?")) {
      throw new IllegalArgumentException();
    }
    return text;
  }

  private long objectBytes() {
    long bytes = keys.size("object.bytes", 0, 1L << 60);
    long largest = Units.bytes(keys.text("host.slab_bytes"));
    keys.require(
        "object.bytes",
        bytes == 0 || bytes >= largest || keys.isMistaken("host.slab_bytes"),
        "0, or at least host.slab_bytes ("
            + ByteSize.words(largest)
            + "): the size of the largest block that there can be");
    return bytes;
  }

  private long ledgerBytes() {
    long bytes = keys.size("object.ledger_bytes", 0, 1L << 40);
    keys.require(
        "object.ledger_bytes",
        bytes == 0 || bytes >= PresenceLedger.BYTES_MIN,
        "0, or at least " + ByteSize.words(PresenceLedger.BYTES_MIN));
    return bytes;
  }

  private KvtierdConfig.@Nullable ObjectEncryption objectEncryption() {
    String file = keys.text("object.encryption.key_file");
    List<String> command = keys.list("object.encryption.key_command");
    List<KeySource> older = new ArrayList<>();
    for (String one : keys.list("object.encryption.read_key_files")) {
      older.add(new KeySource.KeyFile(keys.path("object.encryption.read_key_files", one)));
    }
    boolean readsUnencrypted = keys.flag("object.encryption.read_unencrypted");
    keys.require(
        "object.encryption.key_command",
        file.isEmpty() || command.isEmpty(),
        "nothing, where there is object.encryption.key_file");
    if (file.isEmpty() && command.isEmpty()) {
      keys.require(
          "object.encryption.read_key_files",
          older.isEmpty(),
          "nothing, where there is no key to write with (key_file or key_command)");
      return null;
    }
    KeySource key =
        file.isEmpty()
            ? new KeySource.KeyCommand(command, KEY_COMMAND_NS)
            : new KeySource.KeyFile(keys.path("object.encryption.key_file", file));
    return new KvtierdConfig.ObjectEncryption(key, List.copyOf(older), readsUnencrypted);
  }

  private ObjectPipelineOptions objectPipeline() {
    int callsMax = keys.number("object.calls_max", 1, 4096);
    int calls = keys.number("object.calls", 1, 4096);
    int callsMin = keys.number("object.calls_min", 1, 4096);
    keys.requireAtMost("object.calls", calls, "object.calls_max", callsMax);
    keys.requireAtMost("object.calls_min", callsMin, "object.calls", calls);
    if (keys.isMistaken("object.calls") || keys.isMistaken("object.calls_min")) {
      callsMin = 1;
      calls = 1;
    }
    String codec = keys.text("object.codec");
    var _ =
        keys.get(
            "object.codec", BlockCodecs::create, "none, zstd or planes, with /LEVEL if wanted");
    ObjectPipelineOptions.Capacity capacity =
        new ObjectPipelineOptions.Capacity(
            keys.number("object.queue_depth", 2, 65536), keys.number("object.threads", 1, 256));
    long loadTimeout = keys.positiveDuration("object.load_timeout");
    long storeTimeout = keys.positiveDuration("object.store_timeout");
    ObjectPipelineOptions.Bandwidth bandwidth =
        new ObjectPipelineOptions.Bandwidth(
            keys.size("object.load_bytes_per_second", 0, 1L << 50),
            keys.size("object.store_bytes_per_second", 0, 1L << 50));
    return new ObjectPipelineOptions(
        capacity,
        keys.isMistaken("object.codec") ? keys.text("object.codec") : codec,
        new ObjectPipelineOptions.Times(
            loadTimeout, storeTimeout, keys.durationOrZero("object.hedge_after", "200ms")),
        new ObjectPipelineOptions.Calls(calls, callsMin, callsMax),
        bandwidth,
        new ObjectPipelineOptions.Breaker(
            keys.number("object.breaker_failures", 1, 1 << 20),
            keys.positiveDuration("object.breaker_open"),
            keys.positiveDuration("object.breaker_open_max")),
        new ObjectPipelineOptions.Retry(
            keys.number("object.tries", 1, 100),
            keys.positiveDuration("object.retry_rest"),
            keys.positiveDuration("object.retry_rest_max"),
            RETRIES_SHARE,
            RETRIES_SAVED));
  }

  private KvtierdConfig.ObjectPlace objectPlace() {
    return switch (keys.get("object.store", ObjectSection::objectStore, "none, s3 or folder")) {
      case "s3" -> new KvtierdConfig.ObjectPlace.S3(s3());
      case "folder" -> {
        keys.require(
            "object.folder",
            !keys.text("object.folder").isEmpty(),
            "the path of a folder, where object.store is folder");
        yield new KvtierdConfig.ObjectPlace.Folder(
            keys.get("object.folder", Path::of, "a path"),
            keys.get(
                "object.folder_mode",
                ObjectSection::folderMode,
                "an octal file mode of which the owner has all, such as 0700 or 0770"));
      }
      default -> new KvtierdConfig.ObjectPlace.None();
    };
  }

  private static int folderMode(String text) {
    int mode = Integer.parseInt(text, 8);
    if (mode < 0700 || mode > 0777) {
      throw new IllegalArgumentException();
    }
    return mode;
  }

  private static String objectStore(String text) {
    if (!List.of("none", "s3", "folder").contains(text)) {
      throw new IllegalArgumentException();
    }
    return text;
  }

  private S3Options s3() {
    keys.require(
        "object.s3.bucket",
        !keys.text("object.s3.bucket").isEmpty(),
        "the name of a bucket, where object.store is s3");
    URI endpoint = uri("object.s3.endpoint", S3Options::isEndpoint, S3Options.ENDPOINT_FORM);
    S3Options.Addressing addressing =
        keys.get(
            "object.s3.addressing",
            text -> addressing(text, endpoint != null),
            "auto, path or virtual");
    S3Options.ChecksumMode checksums =
        keys.get(
            "object.s3.checksums", ObjectSection::checksums, "when_required or when_supported");
    keys.require(
        "object.s3.region",
        !keys.text("object.s3.region").isEmpty(),
        "a region: us-east-1 will do for most servers that are not AWS's");
    S3Options.Bucket bucket =
        new S3Options.Bucket(
            endpoint,
            keys.text("object.s3.region"),
            keys.isMistaken("object.s3.bucket") ? "mistaken" : keys.text("object.s3.bucket"),
            keys.get("object.s3.prefix", ObjectNames::checkPrefix, "what a name can begin with"),
            addressing);
    return new S3Options(
        bucket,
        keys.text("object.s3.profile"),
        s3Writing(),
        checksums,
        new S3Options.Connections(
            Duration.ofNanos(keys.positiveDuration("object.s3.connect_timeout")),
            Duration.ofNanos(keys.positiveDuration("object.s3.idle_timeout")),
            uri("object.s3.proxy", S3Options::isProxy, S3Options.PROXY_FORM),
            keys.number("object.s3.connections", 1, 65536)));
  }

  private S3Options.Writing s3Writing() {
    String encryption =
        keys.get(
            "object.s3.encryption",
            ObjectSection::s3Encryption,
            "AES256, aws:kms or aws:kms:dsse, or nothing");
    boolean isKms = S3Options.Writing.takesKey(encryption);
    keys.require(
        "object.s3.kms_key",
        isKms
            || keys.text("object.s3.kms_key").isEmpty()
            || keys.isMistaken("object.s3.encryption"),
        "nothing, where object.s3.encryption is neither aws:kms nor aws:kms:dsse");
    return new S3Options.Writing(
        encryption,
        isKms ? keys.text("object.s3.kms_key") : "",
        keys.text("object.s3.storage_class"));
  }

  private static String s3Encryption(String text) {
    if (!List.of("", "AES256", "aws:kms", "aws:kms:dsse").contains(text)) {
      throw new IllegalArgumentException();
    }
    return text;
  }

  /** An address of a form; null if it is absent or mistaken. */
  private @Nullable URI uri(String key, Predicate<URI> isOfForm, String form) {
    String text = keys.text(key);
    URI uri = text.isEmpty() ? null : keys.get(key, ObjectSection::parsedUri, form);
    keys.require(key, uri == null || isOfForm.test(uri), form);
    return keys.isMistaken(key) ? null : uri;
  }

  /**
   * Parses an address. The parser's own exception would contain the address, which can contain a
   * password.
   */
  private static URI parsedUri(String text) {
    try {
      return new URI(text);
    } catch (URISyntaxException e) {
      throw new IllegalArgumentException(e.getReason() + " at index " + e.getIndex());
    }
  }

  private static S3Options.Addressing addressing(String text, boolean hasEndpoint) {
    return switch (text) {
      case "auto" -> hasEndpoint ? S3Options.Addressing.PATH : S3Options.Addressing.VIRTUAL;
      case "path" -> S3Options.Addressing.PATH;
      case "virtual" -> S3Options.Addressing.VIRTUAL;
      default -> throw new IllegalArgumentException();
    };
  }

  private static S3Options.ChecksumMode checksums(String text) {
    return switch (text) {
      case "when_required" -> S3Options.ChecksumMode.WHEN_REQUIRED;
      case "when_supported" -> S3Options.ChecksumMode.WHEN_SUPPORTED;
      default -> throw new IllegalArgumentException();
    };
  }
}
