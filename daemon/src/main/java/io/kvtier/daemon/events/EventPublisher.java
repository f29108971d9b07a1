package io.kvtier.daemon.events;

import io.kvtier.daemon.config.KvtierdConfig.EventsConfig;
import io.kvtier.daemon.index.report.EventRecordDescriptor;
import io.kvtier.daemon.index.report.EventRing;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RingConsumer;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;

/**
 * Publishes the index's events, on its own thread. In three cases the index walks over its
 * directory, and every block that it finds is published once more: events were lost, a consumer
 * subscribes, or the engine clears its blocks. Blocks that were published before and that the walk
 * does not find are published as removed.
 */
public final class EventPublisher implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(EventPublisher.class);
  private static final int RECORDS_PER_ROUND = 4096;
  private static final int EVENTS_PER_BATCH = 512;
  private static final long BYTES_PER_BATCH = 256 << 10;
  private static final long CLOSE_MS = 2000;
  private static final int REMOVED_OBJECTS_MAX = 1 << 16;
  private static final int ASKING_MAX = 256;

  // The first number of a sequence is higher than every number of an earlier start of the
  // daemon. So consumers see a gap, and ask for the batches before their connection.
  private static final int SEQUENCE_SHIFT = 16;

  /** A consumer that waits for a snapshot. */
  private static final class Asking {
    private final RankSockets rank;
    private final byte[] client;

    Asking(RankSockets rank, byte[] client) {
      this.rank = rank;
      this.client = client;
    }
  }

  /** The publisher's counts. */
  private enum Figure {
    /** Events in the daemon's own batches. */
    PUBLISHED,
    BATCHES,
    /** How often the index had no space for records. */
    GAPS,
    /** Blocks without the ids of their tokens. */
    UNANNOTATED,
    WALKS,
    SNAPSHOTS,
    /** Batches of the engine. */
    RELAYED
  }

  private final EventsConfig config;
  private final EventRing ring;
  private final RingConsumer records;
  private final Runnable indexBell;
  private final Consumer<Throwable> defect;
  private final ZContext context;
  private final List<RankSockets> ranks = new ArrayList<>();
  private final ZMQ.Poller poller;
  private final EventRecord record = new EventRecord();
  private final EventBatch batch;
  private final EventBatch snapshot;
  private final ResidencyTable told;
  private final RemovedObjects removedObjects = new RemovedObjects(REMOVED_OBJECTS_MAX);
  private final Set<String> namespaces;

  /** The beginnings of the names of more namespaces; each ends with a slash. */
  private final List<String> beginnings;

  private final String[] media;
  private final Thread thread;

  private long expected;
  private int round;
  private boolean isWalkWanted;
  private boolean isWalking;
  private boolean isWalkBroken;
  private boolean isAnnouncing;
  private boolean announcePending = true;
  private final List<Asking> askPending = new ArrayList<>();
  private final List<Asking> asking = new ArrayList<>();

  private volatile boolean closed;
  private final AtomicLongArray figures = new AtomicLongArray(Figure.values().length);

  /**
   * Opens the sockets and starts the thread.
   *
   * @param blocksMax the most blocks of this node
   * @param indexBell wakes the index
   * @param defect told of what should never be thrown
   * @throws IOException naming the address that can't be had
   */
  public EventPublisher(
      EventsConfig config,
      EventRing ring,
      int blocksMax,
      Runnable indexBell,
      Consumer<Throwable> defect)
      throws IOException {
    this.config = config;
    this.ring = ring;
    this.indexBell = indexBell;
    this.defect = defect;
    records = ring.consumer();
    batch = new EventBatch(config.format().form(), config.format().hashesAreBytes());
    snapshot = new EventBatch(config.format().form(), config.format().hashesAreBytes());
    namespaces = Set.copyOf(config.namespaces());
    beginnings =
        namespaces.stream()
            .filter(one -> one.endsWith("/*"))
            .map(one -> one.substring(0, one.length() - 1))
            .toList();
    media =
        new String[] {
          config.format().media().host(),
          config.format().media().ssd(),
          config.format().media().object()
        };
    told = new ResidencyTable(blocksMax);
    context = new ZContext();
    try {
      long first = System.currentTimeMillis() << SEQUENCE_SHIFT;
      for (int rank = 0; rank < config.ranks().count(); rank++) {
        ranks.add(new RankSockets(context, config, rank, first));
      }
    } catch (IllegalArgumentException e) {
      context.close();
      told.close();
      throw new IOException(e.getMessage(), e);
    }
    poller = context.createPoller(3 * ranks.size());
    ranks.forEach(rank -> rank.register(poller));
    ring.reportBy(this::report);
    thread = Thread.ofPlatform().name("kvtier-events").start(this::run);
  }

  /** The endpoint at which rank 0 publishes. */
  public String endpoint() {
    return ranks.getFirst().endpoint();
  }

  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  private Map<String, Object> report() {
    Map<String, Object> report = new LinkedHashMap<>();
    report.put("endpoint", endpoint());
    report.put("lost", ring.lost());
    for (Figure figure : Figure.values()) {
      report.put(figure.name().toLowerCase(Locale.ROOT), figures.get(figure.ordinal()));
    }
    return report;
  }

  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  private void count(Figure figure, long count) {
    var _ = figures.addAndGet(figure.ordinal(), count);
  }

  // ---- the thread

  private void run() {
    try {
      wantWalk();
      int intervalMs = (int) Math.max(1, TimeUnit.NANOSECONDS.toMillis(config.intervalNs()));
      while (!closed) {
        int _ = poller.poll(records.hasNext() ? 0 : intervalMs);
        takeMessages();
        takeRecords();
      }
      // The index has stopped; only records that it has already written can follow.
      long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(CLOSE_MS) / 2;
      do {
        takeRecords();
      } while (records.hasNext() && System.nanoTime() - end < 0);
    } catch (ProtocolViolation | RuntimeException | Error e) {
      if (!closed) {
        defect.accept(e);
      }
    }
  }

  private void takeMessages() {
    for (RankSockets rank : ranks) {
      if (rank.takeSubscriptions()) {
        announcePending = true;
      }
      for (byte[] client = rank.answerReplay(); client != null; client = rank.answerReplay()) {
        if (client.length > 0 && askPending.size() < ASKING_MAX) {
          askPending.add(new Asking(rank, client));
        } else if (client.length > 0) {
          // An empty answer is not a snapshot: the consumer asks again.
          rank.endReply(client);
        }
      }
      takeOfEngine(rank);
    }
    if (announcePending || !askPending.isEmpty()) {
      wantWalk();
    }
  }

  private void takeOfEngine(RankSockets rank) {
    for (RankSockets.Relayed came = rank.relay();
        came != RankSockets.Relayed.NOTHING;
        came = rank.relay()) {
      count(Figure.RELAYED, 1);
      announcePending |= came == RankSockets.Relayed.CLEARED;
    }
  }

  private void wantWalk() {
    if (!isWalkWanted) {
      isWalkWanted = true;
      ring.wantWalk();
      indexBell.run();
    }
  }

  // ---- records

  private void takeRecords() throws ProtocolViolation {
    int taken = 0;
    while (taken++ < RECORDS_PER_ROUND && records.hasNext()) {
      int bytes = records.recordBytes();
      record.read(records.region(), records.offset());
      records.skip(bytes);
      records.release();
      if (record.sequence != expected) {
        lost(record.sequence - expected);
      }
      expected = record.sequence + 1;
      take();
      if (batch.count() >= EVENTS_PER_BATCH || batch.bytes() >= BYTES_PER_BATCH) {
        flush();
      }
      if (snapshot.count() >= EVENTS_PER_BATCH || snapshot.bytes() >= BYTES_PER_BATCH) {
        flushSnapshot();
      }
    }
    flush();
  }

  /** Handles lost records: consumers see a gap, and all blocks are published once more. */
  private void lost(long count) {
    flush();
    count(Figure.GAPS, 1);
    ranks.forEach(rank -> rank.skip(count));
    isWalkBroken = true;
    announcePending = true;
    wantWalk();
  }

  private void take() {
    switch (record.kind) {
      case EventRecordDescriptor.STORED -> {
        if (isTold(record.namespaceId)) {
          stored(batch, record.tiers);
          told.add(record, record.tiers, round);
          if ((record.tiers & EventRecordDescriptor.OBJECT) != 0) {
            removedObjects.remove(record);
          }
        }
      }
      case EventRecordDescriptor.REMOVED -> {
        if (isTold(record.namespaceId)) {
          removed(record.key, record.keyBytes, record.group, record.tiers);
          told.remove(record, record.tiers);
          if ((record.tiers & EventRecordDescriptor.OBJECT) != 0) {
            removedObjects.add(record);
          }
        }
      }
      case EventRecordDescriptor.WALK_BEGIN -> beginWalk();
      case EventRecordDescriptor.PRESENT -> {
        if (isTold(record.namespaceId)) {
          present();
        }
      }
      case EventRecordDescriptor.WALK_END -> endWalk();
      default -> throw new IllegalStateException("a record of kind " + record.kind);
    }
  }

  private boolean isTold(int namespaceId) {
    if (namespaces.isEmpty()) {
      return true;
    }
    EventRing.Name name = ring.name(namespaceId);
    return name != null && isNamed(name.name());
  }

  /**
   * Whether the configuration names a namespace, by its whole name or by its beginning and a star.
   */
  private boolean isNamed(String name) {
    if (namespaces.contains(name)) {
      return true;
    }
    for (String beginning : beginnings) {
      if (name.startsWith(beginning)) {
        return true;
      }
    }
    return false;
  }

  private void stored(EventBatch to, int tiers) {
    BlockAnnotation what =
        record.annotationBytes == 0
            ? null
            : BlockAnnotation.read(record.annotation, record.annotationBytes);
    if (what == null) {
      // No consumer can find a block without its tokens.
      count(Figure.UNANNOTATED, 1);
      return;
    }
    for (int tier = 0; tier < media.length; tier++) {
      if ((tiers & 1 << tier) != 0 && !media[tier].isEmpty()) {
        to.stored(record.key, record.keyBytes, record.group, what, media[tier]);
      }
    }
  }

  private void removed(byte[] key, int keyBytes, int group, int tiers) {
    for (int tier = 0; tier < media.length; tier++) {
      if ((tiers & 1 << tier) != 0 && !media[tier].isEmpty()) {
        batch.removed(key, keyBytes, group, media[tier]);
      }
    }
  }

  // ---- walks

  private void beginWalk() {
    isWalking = true;
    isWalkWanted = false;
    isWalkBroken = false;
    round++;
    isAnnouncing = announcePending;
    announcePending = false;
    asking.addAll(askPending);
    askPending.clear();
    if (!asking.isEmpty()) {
      // The first part says with which batch the snapshot begins, even if the part has no event.
      String medium = media[Integer.numberOfTrailingZeros(EventRecordDescriptor.OBJECT)];
      if (!medium.isEmpty()) {
        removedObjects.forEach((key, group) -> snapshot.removed(key, key.length, group, medium));
      }
      byte[] begin = snapshot.end(now());
      asking.forEach(one -> one.rank.snapshot(one.client, begin));
    }
  }

  private void present() {
    if (!isWalking) {
      return;
    }
    if (isAnnouncing) {
      stored(batch, record.tiers);
    }
    if (!asking.isEmpty()) {
      stored(snapshot, record.tiers);
    }
    told.add(record, record.tiers, round);
  }

  private void endWalk() {
    if (!isWalking) {
      return;
    }
    isWalking = false;
    count(Figure.WALKS, 1);
    if (isWalkBroken) {
      // Another walk was asked for already: waiting consumers get its snapshot.
      askPending.addAll(asking);
      asking.clear();
      snapshot.drop();
      return;
    }
    flushSnapshot();
    for (Asking one : asking) {
      one.rank.endReply(one.client);
      count(Figure.SNAPSHOTS, 1);
    }
    asking.clear();
    told.sweep(
        round,
        (key, keyBytes, namespaceId, group, tiers) -> {
          removed(key, keyBytes, group, tiers);
          if (batch.bytes() >= BYTES_PER_BATCH) {
            flush();
          }
        });
  }

  // ---- batches

  private static double now() {
    return System.currentTimeMillis() / 1000.0;
  }

  /** Publishes the batch. A snapshot that was taken before the batch is sent first. */
  private void flush() {
    if (batch.isEmpty()) {
      return;
    }
    flushSnapshot();
    count(Figure.PUBLISHED, batch.count());
    count(Figure.BATCHES, 1);
    byte[] bytes = batch.end(now());
    ranks.forEach(rank -> rank.publish(bytes));
  }

  private void flushSnapshot() {
    if (!snapshot.isEmpty()) {
      byte[] bytes = snapshot.end(now());
      asking.forEach(one -> one.rank.snapshot(one.client, bytes));
    }
  }

  /** Publishes the records that the index has written so far, and ends. */
  @Override
  public void close() {
    closed = true;
    try {
      thread.join(CLOSE_MS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    context.close();
    told.close();
    LOG.debug("events: {}", this);
  }

  @Override
  public String toString() {
    return report().toString();
  }
}
