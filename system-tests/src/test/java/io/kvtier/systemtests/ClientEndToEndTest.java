package io.kvtier.systemtests;

import static io.kvtier.systemtests.Patterns.empty;
import static io.kvtier.systemtests.Patterns.filled;
import static io.kvtier.systemtests.Patterns.keys;
import static io.kvtier.systemtests.Patterns.matches;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.client.BatchResult;
import io.kvtier.client.BlockLease;
import io.kvtier.client.BlockTokens;
import io.kvtier.client.BlockingClient;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.KvtierException;
import io.kvtier.client.LeasePipeline;
import io.kvtier.client.Leases;
import io.kvtier.client.LookupResult;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.client.Reservations;
import io.kvtier.client.ValueResult;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The Java client against a real daemon. Each test has a namespace of its own. */
@Timeout(value = 180, unit = TimeUnit.SECONDS)
final class ClientEndToEndTest {
  private static final int BLOCK_BYTES = 4096;
  private static final AtomicReference<TestDaemon> DAEMON = new AtomicReference<>();

  @BeforeAll
  static void startDaemon(@TempDir Path folder) {
    DAEMON.set(
        TestDaemon.start(
            folder,
            "host.bytes=128MiB",
            "host.slab_bytes=16MiB",
            "ssd.bytes=512MiB",
            "ssd.file_bytes=64MiB"));
  }

  @AfterAll
  static void stopDaemon() {
    daemon().close();
  }

  private static TestDaemon daemon() {
    return Objects.requireNonNull(DAEMON.get());
  }

  private static KvtierClient open() {
    KvtierClient client =
        KvtierClient.builder()
            .socket(daemon().socket())
            .name("end-to-end")
            .timeout(Duration.ofSeconds(20))
            .build();
    // On a busy machine the client may give up waiting once before the daemon has answered.
    for (int i = 0; i < 60 && !client.isConnected(); i++) {
      var _ = client.blocking().ping();
      TestDaemon.pause(500);
    }
    assertTrue(client.isConnected(), () -> client.blocking().ping().detail());
    return client;
  }

  private static Namespace namespace(KvtierClient client, String name) {
    return client.namespace(name, BLOCK_BYTES, Map.of("model", "test", "dtype", "bf16"));
  }

  private static void assertFilled(List<MemorySegment> blocks, int from) {
    for (int i = 0; i < blocks.size(); i++) {
      assertTrue(matches(blocks.get(i), from + i), "bytes of block " + i);
    }
  }

  private static void awaitCounter(KvtierClient client, String name, long value) {
    for (int i = 0; i < 3000 && counter(client, name) != value; i++) {
      // A silent release is not waited for; a ping behind it is.
      assertEquals(Status.OK, client.blocking().ping().status());
      TestDaemon.pause(10);
    }
    assertEquals(value, counter(client, name), name);
  }

  private static long counter(KvtierClient client, String name) {
    return client.counters().getOrDefault(name, -1L);
  }

  @Test
  void get_afterPut_isTheSameBytes() {
    try (KvtierClient client = open();
        Arena arena = Arena.ofConfined()) {
      Namespace namespace = namespace(client, "blocking");
      BlockingClient blocking = client.blocking();
      Keys keys = keys(0, 50);
      assertTrue(
          blocking.put(namespace, keys, filled(arena, 0, 50, BLOCK_BYTES)).blocks().all(Status.OK));
      BatchResult again = blocking.put(namespace, keys, filled(arena, 0, 50, BLOCK_BYTES));
      assertTrue(again.blocks().all(Status.EXISTS));
      assertTrue(again.isComplete());
      List<MemorySegment> read = empty(arena, 50, BLOCK_BYTES);
      BatchResult got = blocking.get(namespace, keys, read);
      assertTrue(got.isComplete(), got::toString);
      assertFilled(read, 0);
    }
  }

  private static boolean keepsAnnotations(BlockingClient blocking) {
    String stats = blocking.stats().text();
    assertTrue(stats.contains("\"annotation_bytes\":"), stats);
    return !stats.contains("\"annotation_bytes\":0");
  }

  @Test
  void put_annotated_isKeptWithTheBlocks() {
    try (KvtierClient client = open();
        Arena arena = Arena.ofShared()) {
      Namespace namespace = namespace(client, "annotated");
      BlockingClient blocking = client.blocking();
      Keys keys = keys(0, 100);
      byte[] annotation = BlockTokens.of(1, 2, 3).after(new byte[32]).annotation();
      List<byte[]> annotations = Collections.nCopies(100, annotation);
      List<MemorySegment> blocks = filled(arena, 0, 100, BLOCK_BYTES);
      BatchResult put =
          blocking.put(
              namespace,
              keys.slice(0, 90),
              blocks.subList(0, 90),
              annotations.subList(0, 90),
              Options.DEFAULT);
      assertTrue(put.blocks().all(Status.OK), put::toString);
      assertTrue(keepsAnnotations(blocking));
      // These blocks have annotations already.
      assertEquals(
          new ValueResult(Status.OK, "", 0),
          blocking.annotate(
              namespace, keys.slice(0, 90), annotations.subList(0, 90), Options.DEFAULT));
      try (Reservations slots = blocking.reserve(namespace, keys.slice(90, 100))) {
        assertEquals(10, slots.granted());
        assertEquals(
            new ValueResult(Status.OK, "", 10),
            blocking.annotate(
                namespace, keys.slice(90, 100), annotations.subList(90, 100), Options.DEFAULT));
      }
      assertTrue(blocking.delete(namespace, keys, Options.DEFAULT).status() == Status.OK);
      assertFalse(keepsAnnotations(blocking));
      assertThrows(
          IllegalArgumentException.class,
          () ->
              blocking.put(
                  namespace,
                  keys,
                  blocks,
                  Collections.nCopies(100, new byte[2049]),
                  Options.DEFAULT));
    }
  }

  @Test
  void getAsync_afterPutAsync_isTheSameBytes() {
    try (KvtierClient client = open();
        Arena arena = Arena.ofShared()) {
      Namespace namespace = namespace(client, "async");
      Keys keys = keys(0, 700);
      assertTrue(
          namespace.put(keys, filled(arena, 0, 700, BLOCK_BYTES)).join().blocks().all(Status.OK));
      List<MemorySegment> read = empty(arena, 700, BLOCK_BYTES);
      BatchResult got = namespace.get(keys, read).join();
      assertTrue(got.isComplete(), got::toString);
      assertFilled(read, 0);
    }
  }

  @Test
  void batch_overKeysMax_isSplitAndJoined() {
    int count = 2 * Protocol.KEYS_MAX + 500;
    try (KvtierClient client = open();
        Arena arena = Arena.ofShared()) {
      Namespace namespace = namespace(client, "large");
      BlockingClient blocking = client.blocking();
      Keys keys = keys(0, count);
      assertTrue(blocking.put(namespace, keys, filled(arena, 0, count, BLOCK_BYTES)).isComplete());
      LookupResult found = blocking.lookup(namespace, keys);
      assertEquals(count, found.run());
      assertEquals(count, namespace.lookup(keys).join().run());
      List<MemorySegment> read = empty(arena, count, BLOCK_BYTES);
      assertTrue(blocking.get(namespace, keys, read).isComplete());
      assertFilled(read, 0);
      try (Leases leases = blocking.acquire(namespace, keys)) {
        assertEquals(count, leases.granted());
        assertTrue(leases.verify());
        assertTrue(leases.release().blocks().all(Status.OK));
      }
      assertEquals(
          count, blocking.delete(namespace, keys, Options.DEFAULT).blocks().count(Status.OK));
      assertEquals(0, blocking.lookup(namespace, keys).run());
    }
  }

  @Test
  void lookup_holes_endTheRun() {
    try (KvtierClient client = open();
        Arena arena = Arena.ofConfined()) {
      Namespace namespace = namespace(client, "holes");
      BlockingClient blocking = client.blocking();
      assertTrue(
          blocking.put(namespace, keys(0, 3), filled(arena, 0, 3, BLOCK_BYTES)).isComplete());
      assertTrue(
          blocking.put(namespace, keys(5, 2), filled(arena, 5, 2, BLOCK_BYTES)).isComplete());
      Keys all = keys(0, 8);
      LookupResult found = blocking.lookup(namespace, all);
      assertEquals(3, found.run());
      assertEquals(5, found.blocks().count(Status.OK));
      assertEquals(Status.MISS, found.blocks().status(3));
      assertEquals(TierId.HOST, found.blocks().tier(5));
      List<MemorySegment> read = empty(arena, 8, BLOCK_BYTES);
      BatchResult got = blocking.get(namespace, all, read);
      assertEquals(found.blocks().statuses(), got.blocks().statuses());
      assertFilled(read.subList(5, 7), 5);
      try (Leases run = blocking.acquire(namespace, all, Options.DEFAULT.withLeadingRun(true))) {
        assertEquals(3, run.granted());
        assertEquals(Status.MISS, run.status(5));
        assertThrows(IllegalStateException.class, () -> run.segment(5));
      }
    }
  }

  @Test
  void acquire_leadingRunOverKeysMax_leasesNothingBeyondTheHole() {
    int count = 2 * Protocol.KEYS_MAX;
    try (KvtierClient client = open();
        Arena arena = Arena.ofShared()) {
      Namespace namespace = namespace(client, "long-run");
      BlockingClient blocking = client.blocking();
      Keys keys = keys(0, count);
      assertTrue(blocking.put(namespace, keys, filled(arena, 0, count, BLOCK_BYTES)).isComplete());
      assertTrue(blocking.delete(namespace, keys.slice(100, 101), Options.DEFAULT).isComplete());
      try (Leases run = blocking.acquire(namespace, keys, Options.DEFAULT.withLeadingRun(true))) {
        assertEquals(100, run.granted());
        assertEquals(100, run.blocks().run());
        assertEquals(100, run.blocks().count(Status.OK));
      }
      awaitCounter(client, "leases", 0);
    }
  }

  @Test
  void twoClients_shareBlocks() {
    try (KvtierClient writer = open();
        KvtierClient reader = open();
        Arena arena = Arena.ofConfined()) {
      Namespace written = namespace(writer, "shared");
      Namespace read = namespace(reader, "shared");
      assertTrue(
          writer
              .blocking()
              .put(written, keys(0, 20), filled(arena, 0, 20, BLOCK_BYTES))
              .isComplete());
      try (Leases leases = reader.blocking().acquire(read, keys(0, 20))) {
        assertEquals(20, leases.granted());
        assertTrue(leases.mustVerify(0), "the writer is alive and may write");
        assertTrue(leases.verify());
        assertTrue(matches(leases.segment(7), 7));
        assertTrue(leases.segment(7).isReadOnly());
        assertTrue(leases.buffer(7).isReadOnly());
      }
      List<MemorySegment> copies = empty(arena, 20, BLOCK_BYTES);
      assertTrue(reader.blocking().get(read, keys(0, 20), copies).isComplete());
      assertFilled(copies, 0);
      List<MemorySegment> arrays = new ArrayList<>();
      for (int i = 0; i < 20; i++) {
        arrays.add(MemorySegment.ofArray(new byte[BLOCK_BYTES]));
      }
      assertTrue(reader.blocking().get(read, keys(0, 20), arrays).isComplete());
      assertFilled(arrays, 0);
    }
  }

  @Test
  void namespace_otherProperties_isRefusedByName() {
    try (KvtierClient client = open()) {
      Namespace known = namespace(client, "picky");
      assertEquals(Status.OK, known.status());
      KvtierException refused =
          assertThrows(
              KvtierException.class,
              () ->
                  client.namespace("picky", BLOCK_BYTES, Map.of("model", "test", "dtype", "fp8")));
      assertEquals(Status.NAMESPACE_MISMATCH, refused.status());
      assertTrue(String.valueOf(refused.getMessage()).contains("dtype"), refused::getMessage);
    }
  }

  @Test
  void unregister_laterOperations_areUnknown() {
    try (KvtierClient client = open()) {
      Namespace namespace = namespace(client, "forgotten");
      assertEquals(Status.OK, namespace.unregister().join().status());
      assertEquals(
          Status.NAMESPACE_UNKNOWN, client.blocking().lookup(namespace, keys(0, 1)).status());
    }
  }

  @Test
  void reservations_commitAndAbort() {
    try (KvtierClient client = open()) {
      Namespace namespace = namespace(client, "slots");
      BlockingClient blocking = client.blocking();
      Reservations reserved = blocking.reserve(namespace, keys(0, 2));
      assertEquals(2, reserved.granted());
      assertEquals(Status.PENDING, blocking.reserve(namespace, keys(0, 1)).status(0));
      Patterns.fill(reserved.segment(0), 0);
      Patterns.fill(reserved.segment(1), 1);
      assertTrue(reserved.commit().join().blocks().all(Status.OK));
      assertThrows(IllegalStateException.class, reserved::commit);
      try (Reservations given = blocking.reserve(namespace, keys(2, 3))) {
        assertEquals(3, given.granted());
      }
      awaitCounter(client, "reservations", 0);
      assertEquals(2, blocking.lookup(namespace, keys(0, 5)).run());
    }
  }

  @Test
  void pinPrefetchClearFlush_answer() {
    try (KvtierClient client = open();
        Arena arena = Arena.ofConfined()) {
      Namespace namespace = namespace(client, "verbs");
      BlockingClient blocking = client.blocking();
      Keys keys = keys(0, 10);
      assertTrue(blocking.put(namespace, keys, filled(arena, 0, 10, BLOCK_BYTES)).isComplete());
      assertTrue(blocking.pin(namespace, keys, Options.DEFAULT).isComplete());
      assertTrue(blocking.unpin(namespace, keys, Options.DEFAULT).isComplete());
      assertTrue(blocking.prefetch(namespace, keys, Options.DEFAULT).isComplete());
      assertEquals(
          Status.MISS, blocking.pin(namespace, keys(90, 1), Options.DEFAULT).blocks().status(0));
      assertEquals(Status.OK, blocking.flush(namespace, Options.DEFAULT).status());
      assertEquals(10, blocking.clear(namespace, Options.DEFAULT).value());
      assertEquals(Status.OK, client.stats().join().status());
      assertEquals(Status.OK, client.ping().join().status());
    }
  }

  @Test
  void get_moreThanHostMemory_comesBackFromSsd() {
    int count = 20;
    int batch = Protocol.KEYS_MAX;
    try (KvtierClient client = open();
        Arena arena = Arena.ofShared()) {
      Namespace namespace = namespace(client, "big");
      BlockingClient blocking = client.blocking();
      List<MemorySegment> blocks = empty(arena, batch, BLOCK_BYTES);
      for (int i = 0; i < count; i++) {
        int from = i * batch;
        Keys some = keys(from, batch);
        for (int b = 0; b < batch; b++) {
          Patterns.fill(blocks.get(b), from + b);
        }
        BatchResult put = blocking.put(namespace, some, blocks);
        for (int tries = 0; tries < 200 && !put.isComplete(); tries++) {
          assertEquals(Status.OK, put.status(), put::detail);
          TestDaemon.pause(20);
          put = blocking.put(namespace, some, blocks);
        }
        assertTrue(put.isComplete(), put::toString);
      }
      for (int i = 0; i < count; i++) {
        BatchResult got = namespace.get(keys(i * batch, batch), blocks).join();
        assertTrue(got.isComplete(), got::toString);
        assertFilled(blocks, i * batch);
      }
      assertTrue(counter(client, "promotions") > 0);
      assertEquals((long) count * batch, blocking.clear(namespace, Options.DEFAULT).value());
    }
  }

  @Test
  void blockLease_andPipeline_giveEverythingBack() {
    try (KvtierClient client = open();
        Arena arena = Arena.ofConfined()) {
      Namespace namespace = namespace(client, "fast");
      BlockingClient blocking = client.blocking();
      Keys keys = keys(0, 64);
      assertTrue(blocking.put(namespace, keys, filled(arena, 0, 64, BLOCK_BYTES)).isComplete());
      try (BlockLease lease = blocking.newLease()) {
        for (int i = 0; i < 1000; i++) {
          assertEquals(Status.OK, lease.acquire(namespace, keys, i % 64, Options.DEFAULT));
          assertTrue(matches(lease.block().segment(), i % 64));
          assertTrue(lease.release());
        }
        assertEquals(Status.MISS, lease.acquire(namespace, keys(500, 1), 0, Options.DEFAULT));
      }
      int[] seen = new int[1];
      try (LeasePipeline pipeline = blocking.newPipeline(namespace, 50, Options.DEFAULT)) {
        LeasePipeline.Handler handler =
            (tag, status, block) -> {
              assertEquals(Status.OK, status);
              assertEquals(seen[0]++, tag);
              assertTrue(matches(block.segment(), (int) (tag % 64)));
              assertFalse(block.hasEnded());
            };
        int offered = 0;
        while (seen[0] < 5000) {
          while (offered < 5000 && pipeline.offer(keys, offered % 64, offered) == Status.OK) {
            offered++;
          }
          pipeline.flush();
          assertTrue(pipeline.drain(handler, 1) > 0);
        }
      }
      awaitCounter(client, "leases", 0);
    }
  }

  @Test
  void leases_afterTheirEnd_sayThatTheyHaveEnded() {
    try (KvtierClient client = open();
        Arena arena = Arena.ofConfined()) {
      Namespace namespace = namespace(client, "brief");
      BlockingClient blocking = client.blocking();
      assertTrue(
          blocking.put(namespace, keys(0, 1), filled(arena, 0, 1, BLOCK_BYTES)).isComplete());
      Leases leases =
          blocking.acquire(namespace, keys(0, 1), Options.DEFAULT.withLease(Duration.ofMillis(50)));
      assertFalse(leases.hasEnded());
      TestDaemon.pause(300);
      assertTrue(leases.hasEnded());
      assertFalse(leases.verify());
      assertEquals(Status.STALE, leases.release().blocks().status(0));
      leases.close();
    }
  }

  @Test
  void close_whileASlotIsWritten_theSlotIsNobodyElsesUntilThen() {
    try (KvtierClient other = open();
        Arena arena = Arena.ofConfined()) {
      Namespace namespace = namespace(other, "late");
      int count = 64;
      KvtierClient closed = open();
      Reservations reserved =
          closed.blocking().reserve(namespace(closed, "late"), keys(1000, count), Options.DEFAULT);
      assertEquals(count, reserved.granted());
      closed.close();
      TestDaemon.pause(100);
      assertTrue(
          other
              .blocking()
              .put(namespace, keys(0, count), filled(arena, 0, count, BLOCK_BYTES))
              .isComplete());
      for (int i = 0; i < count; i++) {
        Patterns.fill(reserved.segment(i), 1000 + i);
      }
      assertEquals(Status.UNAVAILABLE, reserved.commitAndWait().status());
      List<MemorySegment> read = empty(arena, count, BLOCK_BYTES);
      BatchResult got = other.blocking().get(namespace, keys(0, count), read);
      assertTrue(got.isComplete(), got::toString);
      assertFilled(read, 0);
      awaitCounter(other, "reservations", 0);
    }
  }

  @Test
  void cancel_future_leaksNoLease() {
    try (KvtierClient client = open();
        Arena arena = Arena.ofConfined()) {
      Namespace namespace = namespace(client, "cancelled");
      BlockingClient blocking = client.blocking();
      Keys keys = keys(0, 100);
      assertTrue(blocking.put(namespace, keys, filled(arena, 0, 100, BLOCK_BYTES)).isComplete());
      for (int i = 0; i < 200; i++) {
        CompletableFuture<Leases> future = namespace.acquire(keys);
        if (!future.cancel(true)) {
          future.join().close();
        }
      }
      awaitCounter(client, "leases", 0);
    }
  }

  @Test
  void threads_mixedOperations_neverSeeWrongBytes() throws InterruptedException {
    try (KvtierClient client = open()) {
      Namespace namespace = namespace(client, "mixed");
      AtomicReference<Throwable> failure = new AtomicReference<>();
      List<Thread> threads = new ArrayList<>();
      for (int t = 0; t < 6; t++) {
        int seed = t;
        Thread thread =
            new Thread(() -> {
              try (Arena arena = Arena.ofShared()) {
                mix(client, namespace, arena, new SplittableRandom(seed));
              } catch (Throwable e) {
                failure.compareAndSet(null, e);
              }
            });
        threads.add(thread);
        thread.start();
      }
      for (Thread thread : threads) {
        thread.join();
      }
      if (failure.get() != null) {
        throw new AssertionError(failure.get());
      }
      awaitCounter(client, "leases", 0);
      awaitCounter(client, "reservations", 0);
      awaitCounter(client, "operations", 0);
    }
  }

  private static void mix(
      KvtierClient client, Namespace namespace, Arena arena, SplittableRandom random) {
    BlockingClient blocking = client.blocking();
    List<MemorySegment> read = empty(arena, 8, BLOCK_BYTES);
    for (int i = 0; i < 300; i++) {
      int from = random.nextInt(200);
      int count = 1 + random.nextInt(8);
      Keys keys = keys(from, count);
      switch (random.nextInt(6)) {
        case 0 ->
            assertEquals(
                Status.OK,
                blocking.put(namespace, keys, filled(arena, from, count, BLOCK_BYTES)).status());
        case 1 ->
            assertEquals(
                Status.OK,
                namespace.put(keys, filled(arena, from, count, BLOCK_BYTES)).join().status());
        case 2 -> check(blocking.get(namespace, keys, read.subList(0, count)), read, from);
        case 3 -> check(namespace.get(keys, read.subList(0, count)).join(), read, from);
        case 4 -> {
          try (Leases leases = namespace.acquire(keys).join()) {
            for (int b = 0; b < count; b++) {
              if (leases.status(b) == Status.OK) {
                assertTrue(matches(leases.segment(b), from + b));
              }
            }
          }
        }
        default ->
            assertNotNull(blocking.delete(namespace, keys.slice(0, 1), Options.DEFAULT).blocks());
      }
    }
  }

  private static void check(BatchResult got, List<MemorySegment> read, int from) {
    assertEquals(Status.OK, got.status(), got::detail);
    for (int b = 0; b < got.blocks().count(); b++) {
      if (got.blocks().status(b) == Status.OK) {
        assertTrue(matches(read.get(b), from + b));
      }
    }
  }

  @Test
  void misuse_isThrown() {
    try (KvtierClient client = open();
        Arena arena = Arena.ofConfined()) {
      Namespace namespace = namespace(client, "misuse");
      BlockingClient blocking = client.blocking();
      assertThrows(
          IllegalArgumentException.class,
          () -> blocking.put(namespace, keys(0, 1), empty(arena, 1, BLOCK_BYTES - 8)));
      assertThrows(
          IllegalArgumentException.class,
          () -> blocking.get(namespace, keys(0, 2), empty(arena, 1, BLOCK_BYTES)));
      assertThrows(
          IllegalArgumentException.class,
          () -> client.namespace("bad", 1, Map.of("a", "line\nbreak")));
      assertTrue(
          blocking.put(namespace, keys(0, 0), List.of()).isComplete(), "an empty batch is done");
      assertEquals(0, blocking.lookup(namespace, keys(0, 0)).run());
    }
  }
}
