package io.kvtier.daemon;

import io.kvtier.daemon.config.KvtierdConfig.ObjectConfig;
import io.kvtier.daemon.config.KvtierdConfig.ObjectPlace;
import io.kvtier.daemon.index.ObjectParts;
import io.kvtier.tiers.object.FolderObjectStore;
import io.kvtier.tiers.object.ObjectCounter;
import io.kvtier.tiers.object.ObjectDeletions;
import io.kvtier.tiers.object.ObjectPipeline;
import io.kvtier.tiers.object.ObjectStore;
import io.kvtier.tiers.object.PresenceCache;
import io.kvtier.tiers.object.S3ObjectStore;
import io.kvtier.tiers.object.StoreResult;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The object tier's store and what works on it. */
final class ObjectTier implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(ObjectTier.class);
  private static final long FIRST_CALL_NS = TimeUnit.SECONDS.toNanos(10);

  private final Deque<AutoCloseable> parts = new ArrayDeque<>();
  private final @Nullable ObjectParts forIndex;

  /**
   * Opens the store, if there is to be one. Whether it answers is told in the log: a node serves
   * its other tiers without it.
   *
   * @param bell wakes the index
   * @param defect told of what should never happen
   * @throws IOException naming the folder that can't be had, and why
   */
  ObjectTier(ObjectConfig config, Runnable bell, Consumer<Throwable> defect) throws IOException {
    try {
      forIndex = open(config, bell, defect);
    } catch (IOException | RuntimeException e) {
      close();
      throw e;
    }
  }

  private @Nullable ObjectParts open(ObjectConfig config, Runnable bell, Consumer<Throwable> defect)
      throws IOException {
    ObjectStore opened;
    switch (config.place()) {
      case ObjectPlace.None _ -> {
        return null;
      }
      case ObjectPlace.Folder(var path) ->
          opened = new FolderObjectStore(path, config.pipeline().callsMax());
      case ObjectPlace.S3(var options) -> opened = new S3ObjectStore(options);
    }
    ObjectStore store = keep(opened);
    greet(store);
    PresenceCache presence =
        new PresenceCache(
            store,
            config.presenceBytes(),
            config.presentNs(),
            config.absentNs(),
            config.probes(),
            config.probeTimeoutNs());
    ObjectPipeline pipeline =
        keep(new ObjectPipeline("kvtier-object", store, config.pipeline(), presence, bell, defect));
    ObjectDeletions deletions =
        keep(new ObjectDeletions("kvtier-object-deletions", store, bell, defect));
    return new ObjectParts(
        pipeline,
        config.pipeline().depth(),
        pipeline::reachesStore,
        pipeline::takesStores,
        presence,
        deletions,
        config.admission(),
        config.spillBytes(),
        bell,
        () -> report(store, pipeline, presence, deletions));
  }

  /** Says in the log whether the store answers. */
  private static void greet(ObjectStore store) {
    store
        .list("", "", 1, FIRST_CALL_NS)
        .whenEnded(result -> {
          if (result instanceof StoreResult.Page) {
            LOG.info("the object tier is {}", store.describe());
          } else {
            LOG.warn(
                "the object tier, {}, does not answer as it should: {}; it is tried again when it"
                    + " is needed",
                store.describe(),
                result);
          }
        });
  }

  private static Map<String, Object> report(
      ObjectStore store,
      ObjectPipeline pipeline,
      PresenceCache presence,
      ObjectDeletions deletions) {
    Map<String, Object> report = new LinkedHashMap<>();
    report.put("store", store.describe());
    report.put("takes_loads", pipeline.reachesStore());
    report.put("takes_stores", pipeline.takesStores());
    report.put("keys_known", presence.size());
    report.put("deletions_waiting", deletions.queued() - deletions.done());
    for (ObjectCounter counter : ObjectCounter.values()) {
      report.put(counter.name().toLowerCase(Locale.ROOT), pipeline.count(counter));
    }
    return report;
  }

  private <T extends AutoCloseable> T keep(T part) {
    parts.push(part);
    return part;
  }

  /** What the index needs of it; null when there is no such tier. */
  @Nullable ObjectParts forIndex() {
    return forIndex;
  }

  @Override
  public void close() {
    Parts.close(parts);
  }
}
