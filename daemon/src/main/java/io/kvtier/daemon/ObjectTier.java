package io.kvtier.daemon;

import io.kvtier.daemon.config.KvtierdConfig.ObjectConfig;
import io.kvtier.daemon.config.KvtierdConfig.ObjectEncryption;
import io.kvtier.daemon.config.KvtierdConfig.ObjectPlace;
import io.kvtier.daemon.index.source.ObjectParts;
import io.kvtier.protocol.linux.HostName;
import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.files.OwnFiles;
import io.kvtier.tiers.ledger.PresenceLedger;
import io.kvtier.tiers.object.CipherKeys;
import io.kvtier.tiers.object.FolderObjectStore;
import io.kvtier.tiers.object.ObjectCipher;
import io.kvtier.tiers.object.ObjectCounter;
import io.kvtier.tiers.object.ObjectDeletions;
import io.kvtier.tiers.object.ObjectPipeline;
import io.kvtier.tiers.object.ObjectStore;
import io.kvtier.tiers.object.PresenceCache;
import io.kvtier.tiers.object.S3ObjectStore;
import io.kvtier.tiers.object.StoreResult;
import io.kvtier.tiers.object.janitor.JanitorTask;
import io.kvtier.tiers.object.janitor.ObjectJanitor;
import io.kvtier.tiers.object.janitor.UseLog;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Queue;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The object tier's store, its pipeline, ledger and janitor. */
final class ObjectTier implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(ObjectTier.class);
  private static final long FIRST_CALL_NS = TimeUnit.SECONDS.toNanos(10);
  private static final int USES_MAX = 1 << 18;

  // Maximum time for which the daemon's end waits for the last report of uses.
  private static final long USES_TIMEOUT_NS = TimeUnit.SECONDS.toNanos(2);

  private final Deque<AutoCloseable> parts = new ArrayDeque<>();
  private final @Nullable ObjectParts forIndex;
  private @Nullable ObjectPipeline pipeline;

  /**
   * Opens the configured store, if there is one. The log says whether the store answers: a node
   * serves its other tiers without the store.
   *
   * @param socket of this daemon; another daemon of this machine is another node
   * @param bell wakes the index
   * @param defect told of what should never happen
   * @throws IOException naming the folder or the key that can't be had, and why
   */
  ObjectTier(ObjectConfig config, Path socket, Runnable bell, Consumer<Throwable> defect)
      throws IOException {
    try {
      ObjectStore store = store(config);
      forIndex = store == null ? null : open(config, keep(store), socket, bell, defect);
    } catch (IOException | RuntimeException e) {
      close();
      throw e;
    }
  }

  private static @Nullable ObjectStore store(ObjectConfig config) throws IOException {
    return switch (config.place()) {
      case ObjectPlace.None _ -> null;
      case ObjectPlace.Folder(Path path, int mode) ->
          folder(path, config.pipeline().calls().max(), mode);
      case ObjectPlace.S3(var options) -> new S3ObjectStore(options);
    };
  }

  private static ObjectStore folder(Path path, int threads, int mode) throws IOException {
    try {
      return new FolderObjectStore(path, threads, mode);
    } catch (IOException e) {
      throw new IOException(
          "object.folder '" + path + "' can't be used: " + FileErrors.words(e), e);
    }
  }

  /** The store in words; null if none is configured. */
  static @Nullable String describe(ObjectPlace place) {
    return switch (place) {
      case ObjectPlace.None _ -> null;
      case ObjectPlace.Folder(Path path, _) -> FolderObjectStore.describe(path);
      case ObjectPlace.S3(var options) -> options.describe();
    };
  }

  /**
   * Refuses a directory that another daemon has, before anything costly is done; takes and makes
   * nothing.
   *
   * @throws IOException naming the directory and its key
   */
  static void requireFree(ObjectConfig config) throws IOException {
    String store = describe(config.place());
    if (store == null || config.ledger().bytesMax() == 0) {
      return;
    }
    try {
      PresenceLedger.requireFree(ledgerFolder(config, store));
    } catch (IOException e) {
      throw directoryFailure(config, e);
    }
  }

  /** The folder of the ledger of a store: each store has its own ledger. */
  private static Path ledgerFolder(ObjectConfig config, String store) {
    return config.ledger().directory().resolve("store-" + shortHash(store));
  }

  private static IOException directoryFailure(ObjectConfig config, IOException cause) {
    return new IOException(
        "object.directory '"
            + config.ledger().directory()
            + "' can't be used: "
            + FileErrors.ofMaking(cause),
        cause);
  }

  private ObjectParts open(
      ObjectConfig config,
      ObjectStore store,
      Path socket,
      Runnable bell,
      Consumer<Throwable> defect)
      throws IOException {
    ObjectCipher cipher = cipher(config.encryption());
    PresenceLedger ledger = ledger(config, store, defect);
    PresenceCache presence =
        new PresenceCache(
            store,
            new PresenceCache.Options(
                config.presence().bytesMax(),
                config.presence().presentNs(),
                config.presence().absentNs(),
                config.presence().probes(),
                config.presence().probeTimeoutNs()),
            ledger);
    greet(store, presence);
    ObjectPipeline made =
        keep(
            new ObjectPipeline(
                "kvtier-object", store, config.pipeline(), cipher, presence, bell, defect));
    pipeline = made;
    String node = config.care().node().isEmpty() ? nodeOf(socket) : config.care().node();
    UseLog uses = uses(config, store, node, defect);
    Queue<List<String>> collected = new ConcurrentLinkedQueue<>();
    ObjectDeletions deletions =
        keep(new ObjectDeletions("kvtier-object-deletions", store, bell, defect, collected::add));
    Consumer<List<String>> deletionsOfJanitor =
        names -> {
          collected.add(names);
          bell.run();
        };
    ObjectJanitor janitor =
        keep(new ObjectJanitor(store, node, janitorOptions(config), cipher, deletionsOfJanitor));
    if (config.care().bytesMax() > 0) {
      // While an operator's task runs, this turn is left out.
      keep(
          new Collector(
              () -> janitor.start(new JanitorTask.Gc()), config.care().everyNs(), defect));
    }
    return new ObjectParts(
        new ObjectParts.Traffic(
            made, config.pipeline().capacity().depth(), made::reachesStore, made::takesStores),
        new ObjectParts.Contents(
            presence, deletions, collected::poll, uses == null ? null : uses::used),
        config.uploads().admission(),
        config.uploads().spillBytes(),
        new ObjectOperator(janitor),
        () -> {
          Map<String, Object> report = report(store, made, presence, deletions, janitor);
          report.put("presence_lost", ledger == null ? 0 : ledger.lost());
          report.put("ledger_trouble", ledger == null ? "" : ledger.trouble());
          report.put("uses_forgotten", uses == null ? 0 : uses.forgotten());
          return report;
        },
        bell);
  }

  private static @Nullable ObjectCipher cipher(@Nullable ObjectEncryption encryption)
      throws IOException {
    if (encryption == null) {
      return null;
    }
    CipherKeys keys = CipherKeys.load(encryption.key(), encryption.readKeys());
    LOG.info("objects are encrypted with {}", keys);
    return new ObjectCipher(keys, encryption.readsUnencrypted());
  }

  private @Nullable PresenceLedger ledger(
      ObjectConfig config, ObjectStore store, Consumer<Throwable> defect) throws IOException {
    if (config.ledger().bytesMax() == 0) {
      return null;
    }
    Path folder = ledgerFolder(config, store.describe());
    PresenceLedger ledger;
    try {
      OwnFiles.makeFolders(folder);
      ledger =
          keep(
              new PresenceLedger(
                  folder,
                  config.ledger().bytesMax(),
                  TimeUnit.NANOSECONDS.toMillis(config.ledger().ageNsMax()),
                  defect));
    } catch (IOException e) {
      throw directoryFailure(config, e);
    }
    if (!ledger.openingReport().isEmpty()) {
      LOG.warn("{}", ledger.openingReport());
    }
    return ledger;
  }

  private @Nullable UseLog uses(
      ObjectConfig config, ObjectStore store, String node, Consumer<Throwable> defect) {
    long everyNs = config.care().usesEveryNs();
    if (everyNs == 0) {
      return null;
    }
    UseLog uses =
        keep(new UseLog(store, node, new UseLog.Options(USES_MAX, everyNs, USES_TIMEOUT_NS)));
    uses.start(defect);
    return uses;
  }

  private static ObjectJanitor.Options janitorOptions(ObjectConfig config) {
    ObjectJanitor.Options usual = ObjectJanitor.Options.of(config.care().bytesMax());
    return new ObjectJanitor.Options(
        new ObjectJanitor.Cap(
            usual.cap().bytes(),
            usual.cap().lowPercent(),
            TimeUnit.NANOSECONDS.toMillis(config.care().graceNs())),
        new ObjectJanitor.Pace(
            config.care().callsPerSecond(),
            usual.pace().callTimeoutMs(),
            usual.pace().runMs(),
            usual.pace().leaseMs()),
        usual.uses(),
        usual.unfinishedMs());
  }

  /** The host's name, with a mark that distinguishes the daemons of this host. */
  private static String nodeOf(Path socket) throws IOException {
    String host = HostName.read();
    String path = socket.toAbsolutePath().normalize().toString();
    return "n-" + host.replaceAll("[^A-Za-z0-9._-]", "_") + '-' + shortHash(path);
  }

  private static String shortHash(String text) {
    return UUID.nameUUIDFromBytes(text.getBytes(StandardCharsets.UTF_8)).toString().substring(0, 8);
  }

  /** Logs whether the store answers. */
  private static void greet(ObjectStore store, PresenceCache presence) {
    store
        .list("", "", 1, FIRST_CALL_NS)
        .whenEnded(result -> {
          presence.heard(result);
          if (result instanceof StoreResult.Page) {
            LOG.info("the object tier is {}", store.describe());
          } else {
            LOG.warn(
                "the object tier, {}, does not answer as it should: {}. It is tried again when it"
                    + " is needed",
                store.describe(),
                result.words());
          }
        });
  }

  private static Map<String, Object> report(
      ObjectStore store,
      ObjectPipeline pipeline,
      PresenceCache presence,
      ObjectDeletions deletions,
      ObjectJanitor janitor) {
    Map<String, Object> report = new LinkedHashMap<>();
    report.put("store", store.describe());
    report.put("takes_loads", pipeline.reachesStore());
    report.put("load_trouble", pipeline.loadTrouble());
    report.put("probe_trouble", presence.trouble());
    report.put("takes_stores", pipeline.takesStores());
    report.put("store_trouble", pipeline.storeTrouble());
    report.put("keys_known", presence.size());
    report.put("deletions_waiting", deletions.queued() - deletions.done());
    for (ObjectCounter counter : ObjectCounter.values()) {
      report.put(counter.name().toLowerCase(Locale.ROOT), pipeline.count(counter));
    }
    report.put("task", janitor.report());
    return report;
  }

  private <T extends AutoCloseable> T keep(T part) {
    parts.push(part);
    return part;
  }

  /** Changes the caps of later transfers, if there is an object tier; 0 for no cap. */
  void changeBandwidth(long loadBytesPerSecond, long storeBytesPerSecond) {
    if (pipeline != null) {
      pipeline.changeBandwidth(loadBytesPerSecond, storeBytesPerSecond);
    }
  }

  /** The parts of the tier that the index needs; null if there is no object tier. */
  @Nullable ObjectParts forIndex() {
    return forIndex;
  }

  @Override
  public void close() {
    Parts.close(parts);
  }
}
