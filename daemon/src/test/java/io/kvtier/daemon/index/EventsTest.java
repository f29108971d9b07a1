package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.ConfigException;
import io.kvtier.daemon.config.ConfigLoader;
import io.kvtier.daemon.config.KvtierdConfig.EventsConfig;
import io.kvtier.daemon.events.EventPublisher;
import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.report.EventRing;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.transfer.Checksums;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;
import org.msgpack.core.MessageBufferPacker;
import org.msgpack.core.MessagePack;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;

/** What consumers know agrees with the tiers, whatever the index did. */
class EventsTest {
  private static final int HOST = 0;
  private static final int SSD = 1;
  private static final int SLOTS = 72;
  private static final long PATIENCE_NS = 60_000_000_000L;

  private final int checksum = checksumOfZeros();

  private static int checksumOfZeros() {
    CRC32C checksum = new CRC32C();
    checksum.update(new byte[IndexHarness.SLOT_BYTES]);
    return (int) checksum.getValue();
  }

  private static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0)) {
      return socket.getLocalPort();
    }
  }

  private static EventsConfig config(List<String> settings) throws ConfigException {
    List<String> all = new ArrayList<>(List.of("events.consumer=dynamo", "events.interval=5ms"));
    all.addAll(settings);
    EventsConfig config = ConfigLoader.load(null, all).reports().events();
    assertTrue(config != null);
    return config;
  }

  private static IndexHarness harness(EventRing ring) throws IOException {
    return new IndexHarness(
        new IndexHarness.Settings(2, SLOTS)
            .checksums(new IndexHarness.InlinePipeline(Checksums::run), IndexHarness.SLOT_BYTES)
            .ssd(2, new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK))
            .events(ring));
  }

  private static byte[] annotation(long key, int padding) throws IOException {
    ByteBuffer tokens = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(key);
    try (MessageBufferPacker out = MessagePack.newDefaultBufferPacker()) {
      out.packMapHeader(2).packString("token_ids").packBinaryHeader(8).writePayload(tokens.array());
      out.packString("padding").packBinaryHeader(padding).writePayload(new byte[padding]);
      return out.toByteArray();
    }
  }

  /** Has the index work until there is an answer. */
  private static IndexHarness.Answer answer(IndexHarness harness, IndexHarness.Client client)
      throws ProtocolViolation {
    for (int round = 0; !client.hasAnswer(); round++) {
      assertTrue(round < 1000, "no answer");
      int _ = harness.agent.doWork();
    }
    return client.take();
  }

  private void put(IndexHarness harness, IndexHarness.Client client, long key, int padding)
      throws ProtocolViolation, IOException {
    client.sendKeys(Verb.RESERVE, key, 1);
    IndexHarness.Answer reserved = answer(harness, client);
    if (reserved.ids().isEmpty()) {
      return;
    }
    assertEquals(1, client.annotate(key, annotation(key, padding)));
    client.sendIds(Verb.COMMIT, 16, 1, reserved.ids().getFirst(), checksum);
    assertEquals(Status.OK, client.work().first());
  }

  /** The keys of the blocks that are in a tier and can be found. */
  private static Set<Long> truth(IndexHarness harness, int tier) {
    Directory directory = harness.directory();
    Set<Long> keys = new HashSet<>();
    byte[] key = new byte[32];
    for (int block = 0; block < directory.highWater(); block++) {
      if (directory.isUsed(block)
          && directory.isLinked(block)
          && directory.copies().state(tier, block) == CopyState.RESIDENT) {
        directory.copyKey(block, key);
        keys.add(ByteBuffer.wrap(key).order(ByteOrder.LITTLE_ENDIAN).getLong());
      }
    }
    return keys;
  }

  /** Has the index work until the consumer knows the true state, however long that takes. */
  private static void assertLearns(IndexHarness harness, EventConsumer consumer)
      throws InterruptedException {
    long end = System.nanoTime() + PATIENCE_NS;
    while (!(consumer.in("CPU").equals(truth(harness, HOST))
            && consumer.in("DISK").equals(truth(harness, SSD)))
        && System.nanoTime() < end) {
      int _ = harness.agent.doWork();
      Thread.sleep(1);
    }
    assertEquals(truth(harness, HOST), consumer.in("CPU"));
    assertEquals(truth(harness, SSD), consumer.in("DISK"));
    for (long key : truth(harness, SSD)) {
      assertEquals(List.of((int) key, (int) (key >> 32)), consumer.tokens(key));
    }
  }

  private static EventPublisher publisher(
      EventsConfig config, EventRing ring, AtomicReference<Throwable> defect) throws IOException {
    return new EventPublisher(config, ring, 1024, () -> {}, defect::set);
  }

  @Test
  void randomOperations_gapsOnTheWayAndAFullQueue_consumersBelieveWhatIsThere() throws Exception {
    int port = freePort();
    int replayPort = freePort();
    String endpoint = "tcp://127.0.0.1:" + port;
    String replay = "tcp://127.0.0.1:" + replayPort;
    EventsConfig config =
        config(
            List.of(
                "events.endpoint=" + endpoint,
                "events.replay_endpoint=" + replay,
                "events.queue_bytes=64KiB",
                // Few events are kept, so that a consumer that was away for long must ask for
                // everything.
                "events.replay_batches=20"));
    SplittableRandom random = new SplittableRandom(7);
    AtomicReference<Throwable> defect = new AtomicReference<>();
    AtomicBoolean isAway = new AtomicBoolean();
    try (EventRing ring = new EventRing(config.buffers().queueBytes());
        IndexHarness harness = harness(ring);
        EventPublisher publisher = publisher(config, ring, defect);
        EventConsumer asking = new EventConsumer(endpoint, replay, isAway::get);
        EventConsumer hearing = new EventConsumer(endpoint, null, () -> false)) {
      IndexHarness.Client client = harness.open();
      client.register();
      for (int step = 0; step < 10_000; step++) {
        long key = random.nextLong(600) | (random.nextLong(2) << 40);
        switch (random.nextInt(10)) {
          case 0, 1 -> {
            client.sendKeys(Verb.DELETE, key, 1);
            var _ = answer(harness, client);
          }
          case 2, 3 -> {
            client.sendKeys(Verb.ACQUIRE, key, 1);
            for (long id : answer(harness, client).ids()) {
              client.sendIds(Verb.RELEASE, 0, 1, id);
              assertEquals(Status.OK, client.work().first());
            }
          }
          // Now and then so many blocks at once that the queue is too small for their events.
          case 4 -> {
            for (int more = 0; more < (random.nextInt(50) == 0 ? 120 : 1); more++) {
              put(harness, client, random.nextLong(600), 1900);
            }
          }
          default -> put(harness, client, key, 0);
        }
        int _ = harness.agent.doWork();
        if (random.nextInt(400) == 0) {
          isAway.set(!isAway.get());
          Thread.sleep(random.nextInt(60));
        }
      }
      isAway.set(false);
      // An event whose number the consumers must notice.
      put(harness, client, 1L << 50, 0);
      assertLearns(harness, asking);
      assertLearns(harness, hearing);
      assertTrue(ring.lost() > 0, "the queue was never full: " + publisher);
      assertTrue(asking.replays() > 0, "nothing was missed: " + publisher);
      assertTrue(asking.snapshots() > 0, "nothing was missed for good: " + publisher);
      assertEquals(0, asking.cleared() + hearing.cleared());
    }
    assertEquals(null, defect.get());
  }

  @Test
  void subscriber_thatComesLate_isToldOfEverything() throws Exception {
    EventsConfig config = config(List.of("events.endpoint=tcp://127.0.0.1:*"));
    AtomicReference<Throwable> defect = new AtomicReference<>();
    try (EventRing ring = new EventRing(config.buffers().queueBytes());
        IndexHarness harness = harness(ring);
        EventPublisher publisher = publisher(config, ring, defect)) {
      IndexHarness.Client client = harness.open();
      client.register();
      for (int key = 1; key <= 100; key++) {
        put(harness, client, key, 0);
      }
      try (EventConsumer late = new EventConsumer(publisher.endpoint(), null, () -> false)) {
        assertLearns(harness, late);
        assertEquals(100, late.in("CPU").size());
      }
    }
    assertEquals(null, defect.get());
  }

  @Test
  void annotation_ofABlockThatIsThere_isToldOnce() throws Exception {
    EventsConfig config = config(List.of("events.endpoint=tcp://127.0.0.1:*"));
    AtomicReference<Throwable> defect = new AtomicReference<>();
    try (EventRing ring = new EventRing(config.buffers().queueBytes());
        IndexHarness harness = harness(ring);
        EventPublisher publisher = publisher(config, ring, defect);
        EventConsumer consumer = new EventConsumer(publisher.endpoint(), null, () -> false)) {
      IndexHarness.Client client = harness.open();
      client.register();
      client.put(5, checksum);
      assertEquals(1, client.annotate(5, annotation(5, 0)));
      assertEquals(0, client.annotate(5, annotation(6, 0)));
      assertEquals(0, client.annotate(77, annotation(77, 0)));
      assertLearns(harness, consumer);
      assertEquals(List.of(5, 0), consumer.tokens(5));
    }
    assertEquals(null, defect.get());
  }

  @Test
  void engine_itsEventsAreRelayed_andItsClearingTakesNothingOfOurs() throws Exception {
    int enginePort = freePort();
    EventsConfig config =
        config(
            List.of(
                "events.endpoint=tcp://127.0.0.1:*",
                "events.engine_endpoint=tcp://127.0.0.1:" + enginePort));
    AtomicReference<Throwable> defect = new AtomicReference<>();
    try (ZContext context = new ZContext();
        EventRing ring = new EventRing(config.buffers().queueBytes());
        IndexHarness harness = harness(ring);
        EventPublisher publisher = publisher(config, ring, defect);
        EventConsumer consumer = new EventConsumer(publisher.endpoint(), null, () -> false)) {
      ZMQ.Socket engine = context.createSocket(SocketType.PUB);
      assertTrue(engine.bind("tcp://127.0.0.1:" + enginePort));
      IndexHarness.Client client = harness.open();
      client.register();
      put(harness, client, 9, 0);
      assertLearns(harness, consumer);
      byte[] cleared;
      try (MessageBufferPacker out = MessagePack.newDefaultBufferPacker()) {
        out.packArrayHeader(3).packDouble(1).packArrayHeader(1).packMapHeader(1);
        out.packString("type").packString("AllBlocksCleared").packInt(0);
        cleared = out.toByteArray();
      }
      long sequence = 0;
      long end = System.nanoTime() + PATIENCE_NS;
      while (consumer.cleared() == 0 && System.nanoTime() < end) {
        engine.send(new byte[0], ZMQ.SNDMORE);
        engine.send(ByteBuffer.allocate(8).putLong(sequence++).array(), ZMQ.SNDMORE);
        engine.send(cleared, 0);
        int _ = harness.agent.doWork();
        Thread.sleep(20);
      }
      assertTrue(consumer.cleared() > 0);
      assertLearns(harness, consumer);
      assertEquals(Set.of(9L), consumer.in("CPU"));
    }
    assertEquals(null, defect.get());
  }
}
