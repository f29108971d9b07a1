package io.kvtier.systemtests;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static io.kvtier.systemtests.Patterns.empty;
import static io.kvtier.systemtests.Patterns.filled;
import static io.kvtier.systemtests.Patterns.keys;
import static io.kvtier.systemtests.Patterns.matches;
import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import io.kvtier.client.BatchResult;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.KvtierException;
import io.kvtier.client.LookupResult;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.client.Reservations;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Faults that users of other caches report, one test each, against a real daemon. {@code
 * scripts/wounds-check} takes the guard of each out, and requires that its test fails.
 */
@Timeout(value = 180, unit = TimeUnit.SECONDS)
final class WoundsTest {
  private static final int BLOCK_BYTES = 65536;
  private static final int SSD_SLOT_BYTES = BLOCK_BYTES + 4096;
  private static final Duration TIMEOUT = Duration.ofSeconds(30);
  private static final String[] MEMORY = {"host.bytes=16MiB", "host.slab_bytes=8MiB"};
  private static final String[] TWO_TIERS =
      with(MEMORY, "ssd.bytes=128MiB", "ssd.file_bytes=16MiB", "ssd.admission=all");
  private static final String[] MEMORY_ALONE = with(MEMORY, "ssd.bytes=0");

  @TempDir private Path folder;

  private static String[] with(String[] some, String... more) {
    return Stream.of(some, more).flatMap(Stream::of).toArray(String[]::new);
  }

  private KvtierClient open() {
    return KvtierClient.builder().socket(folder.resolve("k.sock")).timeout(TIMEOUT).build();
  }

  private static Namespace namespace(KvtierClient client) {
    return client.namespace("wounds", BLOCK_BYTES, Map.of("model", "m"));
  }

  /** Puts blocks {@code [from, from + count)}, waiting for room where there is none. */
  private static void put(KvtierClient client, Namespace namespace, int from, int count) {
    for (int at = from; at < from + count; at += 50) {
      int some = Math.min(50, from + count - at);
      int first = at;
      try (Arena arena = Arena.ofConfined()) {
        List<MemorySegment> blocks = filled(arena, at, some, BLOCK_BYTES);
        await(
            () -> client.blocking().put(namespace, keys(first, some), blocks).isComplete(),
            "room for blocks");
      }
    }
  }

  private static void await(BooleanSupplier condition, String what) {
    long end = System.nanoTime() + 60_000_000_000L;
    while (!condition.getAsBoolean()) {
      assertTrue(System.nanoTime() < end, what);
      TestDaemon.pause(5);
    }
  }

  private static void flush(KvtierClient client, Namespace namespace) {
    assertEquals(Status.OK, client.blocking().flush(namespace, Options.DEFAULT).status());
  }

  private static long counter(KvtierClient client, String name) {
    return client.counters().getOrDefault(name, -1L);
  }

  /** What a get gives; no hit may have other bytes than were put. */
  private static List<Status> statuses(
      KvtierClient client, Namespace namespace, int from, int count) {
    List<Status> all = new ArrayList<>();
    for (int at = from; at < from + count; at += 50) {
      int some = Math.min(50, from + count - at);
      try (Arena arena = Arena.ofConfined()) {
        List<MemorySegment> read = empty(arena, some, BLOCK_BYTES);
        BatchResult got = client.blocking().get(namespace, keys(at, some), read);
        for (int i = 0; i < some; i++) {
          Status status = got.blocks().status(i);
          assertTrue(status != Status.OK || matches(read.get(i), at + i), "wrong bytes");
          all.add(status);
        }
      }
    }
    return all;
  }

  /** A get of which the outcome matters, and not the bytes. */
  private static BatchResult get(
      KvtierClient client, Namespace namespace, Keys keys, Options options) {
    try (Arena arena = Arena.ofConfined()) {
      return client
          .blocking()
          .get(namespace, keys, empty(arena, keys.count(), BLOCK_BYTES), options);
    }
  }

  private static void assertAll(Status expected, List<Status> statuses) {
    assertEquals(List.of(expected), statuses.stream().distinct().toList());
  }

  /**
   * "Wrong bytes served as a hit": failed stores left visible, other requests' KV from disk, failed
   * disk loads counted as loaded, a page evicted between exists and get.
   */
  @Test
  void wound01_wrongBytesServedAsAHit() throws IOException {
    try (TestDaemon daemon = TestDaemon.start(folder, TWO_TIERS);
        KvtierClient client = open()) {
      Namespace namespace = namespace(client);
      put(client, namespace, 0, 40);
      flush(client, namespace);
      try (Reservations half = client.blocking().reserve(namespace, keys(100, 4))) {
        assertEquals(4, half.granted());
        half.segment(0).fill((byte) 1);
        assertEquals(0, client.blocking().lookup(namespace, keys(100, 4)).run());
      }
      assertAll(Status.MISS, statuses(client, namespace, 100, 4));
      daemon.kill();
    }
    // One bit of each slot's bytes, and two slots' bytes exchanged whole with their headers.
    try (FileChannel file =
        FileChannel.open(
            folder.resolve("ssd/slots-0000.dat"),
            StandardOpenOption.READ,
            StandardOpenOption.WRITE)) {
      for (int slot = 2; slot < 40; slot++) {
        long at = (long) slot * SSD_SLOT_BYTES + 4096 + 1000L * slot;
        ByteBuffer one = ByteBuffer.allocate(1);
        file.read(one, at);
        file.write(ByteBuffer.wrap(new byte[] {(byte) (one.get(0) ^ 4)}), at);
      }
      ByteBuffer first = ByteBuffer.allocate(SSD_SLOT_BYTES);
      ByteBuffer second = ByteBuffer.allocate(SSD_SLOT_BYTES);
      file.read(first, 0);
      file.read(second, SSD_SLOT_BYTES);
      file.write(second.flip(), 0);
      file.write(first.flip(), SSD_SLOT_BYTES);
    }
    try (TestDaemon _ = TestDaemon.start(folder, TWO_TIERS);
        KvtierClient client = open()) {
      Namespace namespace = namespace(client);
      assertTrue(counter(client, "found_ssd") >= 40, "the blocks were on SSD");
      assertAll(Status.MISS, statuses(client, namespace, 0, 40));
      assertTrue(counter(client, "corrupt") >= 40, "and were found out");
    }
  }

  /**
   * "Accepted and then lost": offload that drops accepted puts, an index of the SSD lost at a
   * restart.
   */
  @Test
  void wound02_acceptedAndThenLost() {
    int blocks = 1000;
    try (TestDaemon daemon = TestDaemon.start(folder, TWO_TIERS);
        KvtierClient client = open()) {
      Namespace namespace = namespace(client);
      put(client, namespace, 0, blocks);
      assertAll(Status.OK, statuses(client, namespace, 0, blocks));
      flush(client, namespace);
      daemon.kill();
    }
    try (TestDaemon _ = TestDaemon.start(folder, TWO_TIERS);
        KvtierClient client = open()) {
      assertEquals(
          List.of(Status.OK),
          statuses(client, namespace(client), 0, blocks).stream().distinct().toList(),
          "what was flushed is there after a kill");
    }
  }

  /**
   * "Hangs": a large retrieve that hangs the engine, a flush that never times out, a server that is
   * gone.
   */
  @Test
  void wound03_hangs() {
    try (KvtierClient client = open()) {
      Namespace namespace;
      try (TestDaemon daemon = TestDaemon.start(folder, MEMORY_ALONE)) {
        namespace = namespace(client);
        put(client, namespace, 0, 10);
        daemon.signal("STOP");
        Options brief = Options.DEFAULT.withTimeout(Duration.ofMillis(100));
        assertTrue(get(client, namespace, keys(0, 10), brief).blocks().all(Status.DEADLINE));
        assertEquals(Status.DEADLINE, client.blocking().flush(namespace, brief).status());
        CompletableFuture<LookupResult> waiting =
            namespace.lookup(keys(0, 10), Options.DEFAULT.withTimeout(Duration.ofDays(1)));
        daemon.kill();
        await(waiting::isDone, "the end of its session answers who waits");
        assertEquals(Status.UNAVAILABLE, waiting.join().status());
      }
      assertAll(Status.UNAVAILABLE, statuses(client, namespace, 0, 10));
      try (TestDaemon _ = TestDaemon.start(folder, MEMORY_ALONE)) {
        await(client::isConnected, "it connects again by itself");
        assertAll(Status.MISS, statuses(client, namespace, 0, 10));
      }
    }
  }

  /** "Leaks of the dead": locks, pools and mappings of a dead engine that stay. */
  @Test
  void wound04_leaksOfTheDead() throws IOException {
    try (TestDaemon daemon = TestDaemon.start(folder, MEMORY_ALONE);
        KvtierClient client = open()) {
      Namespace namespace = client.namespace("held", BLOCK_BYTES, Map.of("model", "m"));
      put(client, namespace, 0, 8);
      Process holder =
          new ProcessBuilder(
                  Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                  "--enable-native-access=ALL-UNNAMED",
                  "-cp",
                  TestDaemon.classPath(),
                  LeaseHolder.class.getName(),
                  daemon.socket().toString(),
                  Integer.toString(BLOCK_BYTES))
              .redirectError(ProcessBuilder.Redirect.INHERIT)
              .start();
      try (var said = holder.inputReader(UTF_8)) {
        assertEquals("holds 8 and 8", said.readLine());
        await(
            () ->
                counter(client, "sessions") == 2
                    && counter(client, "leases") == 8
                    && counter(client, "reservations") == 8,
            "what the holder has");
      } finally {
        holder.destroyForcibly();
      }
      await(
          () ->
              counter(client, "sessions") == 1
                  && counter(client, "leases") == 0
                  && counter(client, "reservations") == 0
                  && counter(client, "host_slots_free") + counter(client, "host_slots_resident")
                      == counter(client, "host_slots_total"),
          "everything is given back");
      // What was leased can go again: memory is full of others.
      put(client, namespace, 1000, 400);
      assertAll(Status.MISS, statuses(client, namespace, 0, 8));
    }
  }

  /**
   * "Caps that are not caps": 14 TB used against a limit of 4, ghost lists without bound. Metadata
   * counts.
   */
  @Test
  void wound05_capsThatAreNotCaps() throws IOException {
    try (TestDaemon _ =
            TestDaemon.start(
                folder,
                with(
                    MEMORY,
                    "host.policy=s3fifo",
                    "ssd.bytes=32MiB",
                    "ssd.file_bytes=8MiB",
                    "ssd.policy=s3fifo",
                    "limits.blocks=600"));
        KvtierClient client = open()) {
      Namespace namespace = namespace(client);
      put(client, namespace, 0, 1000);
      long metadata = counter(client, "index_bytes");
      put(client, namespace, 1000, 3000);
      assertTrue(counter(client, "dropped") > 2000, "far more than there is room for was put");
      assertTrue(counter(client, "blocks") <= 600);
      assertEquals(metadata, counter(client, "index_bytes"), "ghosts have a bound");
      assertTrue(counter(client, "host_bytes_capacity") <= 16 << 20);
      assertTrue(counter(client, "host_bytes_used") <= 16 << 20);
      try (Stream<Path> files = Files.list(folder.resolve("ssd"))) {
        long bytes = 0;
        for (Path file : files.filter(f -> f.toString().endsWith(".dat")).toList()) {
          bytes += Files.size(file);
        }
        assertTrue(bytes > 0 && bytes <= 32 << 20, bytes + " bytes in files");
      }
    }
  }

  /**
   * "Eviction that frees nothing, or everything": probes renewing leases; target 5 %, evicted 92 %;
   * newest evicted first.
   */
  @Test
  void wound06_evictionThatFreesNothingOrEverything() {
    try (TestDaemon _ = TestDaemon.start(folder, with(MEMORY_ALONE, "host.policy=lru"));
        KvtierClient client = open()) {
      Namespace namespace = namespace(client);
      int full = 200;
      put(client, namespace, 0, full);
      while (counter(client, "evictions") == 0) {
        put(client, namespace, full++, 1);
      }
      int before = evicted(client, namespace, full);
      // Asked for again and again: a lookup is no use, and holds nothing.
      for (int i = 0; i < 50; i++) {
        client.blocking().lookup(namespace, keys(before, 10));
      }
      for (int i = 0; i < 10; i++) {
        put(client, namespace, full + i, 1);
      }
      int evicted = evicted(client, namespace, full + 10);
      assertEquals(10, evicted - before, "as much as was asked for");
      LookupResult all = client.blocking().lookup(namespace, keys(0, full + 10));
      for (int i = 0; i < full + 10; i++) {
        assertEquals(i < evicted ? Status.MISS : Status.OK, all.blocks().status(i), "block " + i);
      }
    }
  }

  /** How many of blocks {@code [0, count)} are gone, when the daemon makes no more room. */
  private static int evicted(KvtierClient client, Namespace namespace, int count) {
    long before;
    do {
      before = counter(client, "evictions");
      TestDaemon.pause(500);
    } while (counter(client, "evictions") != before);
    return client.blocking().lookup(namespace, keys(0, count)).blocks().count(Status.MISS);
  }

  /** "Partial prefixes": a hole counted as part of a prefix. */
  @Test
  void wound07_partialPrefixes() {
    try (TestDaemon _ = TestDaemon.start(folder, MEMORY_ALONE);
        KvtierClient client = open()) {
      Namespace namespace = namespace(client);
      SplittableRandom random = new SplittableRandom(7);
      for (int round = 0; round < 40; round++) {
        int from = 1000 * round;
        boolean[] isThere = new boolean[12];
        int run = -1;
        for (int i = 0; i < isThere.length; i++) {
          isThere[i] = random.nextInt(5) != 0;
          if (isThere[i]) {
            put(client, namespace, from + i, 1);
          } else if (run < 0) {
            run = i;
          }
        }
        int expected = run < 0 ? isThere.length : run;
        Keys keys = keys(from, isThere.length);
        assertEquals(
            expected, client.blocking().lookup(namespace, keys).run(), "a run ends at the hole");
        BatchResult got = get(client, namespace, keys, Options.DEFAULT.withLeadingRun(true));
        assertEquals(expected, got.run(), "a run ends at the hole");
        assertEquals(expected, got.blocks().count(Status.OK), "nothing beyond the hole");
        List<Status> each = statuses(client, namespace, from, isThere.length);
        for (int i = 0; i < isThere.length; i++) {
          assertEquals(isThere[i] ? Status.OK : Status.MISS, each.get(i));
        }
      }
    }
  }

  /** Blocks {@code [0, count)} on SSD and nowhere else, in a daemon that was started anew. */
  private void storeOnSsdAlone(int count) {
    try (TestDaemon daemon = TestDaemon.start(folder, TWO_TIERS);
        KvtierClient client = open()) {
      Namespace namespace = namespace(client);
      put(client, namespace, 0, count);
      flush(client, namespace);
      daemon.kill();
    }
  }

  /**
   * "Convoys": asking again for blocks in flight stalls the scheduler. Gets of one block join one
   * load, and a lookup waits for none.
   */
  @Test
  void wound08_convoys() {
    storeOnSsdAlone(100);
    try (TestDaemon daemon = TestDaemon.start(folder, TWO_TIERS);
        KvtierClient client = open();
        Arena arena = Arena.ofShared()) {
      Namespace namespace = namespace(client);
      List<List<MemorySegment>> targets =
          Stream.generate(() -> empty(arena, 100, BLOCK_BYTES)).limit(8).toList();
      List<CompletableFuture<BatchResult>> gets = new ArrayList<>();
      List<CompletableFuture<LookupResult>> lookups = new ArrayList<>();
      // However slow this machine is: the daemon finds all of them at once.
      daemon.signal("STOP");
      for (List<MemorySegment> target : targets) {
        gets.add(namespace.get(keys(0, 100), target));
        lookups.add(namespace.lookup(keys(0, 100)));
      }
      daemon.signal("CONT");
      for (CompletableFuture<LookupResult> lookup : lookups) {
        assertEquals(Status.OK, lookup.join().status());
      }
      List<BatchResult> answers = gets.stream().map(CompletableFuture::join).toList();
      assertEquals(100, counter(client, "promotions"), "each block was read once");
      assertTrue(counter(client, "joined") > 0, "the others joined");
      for (BatchResult answer : answers) {
        assertTrue(answer.blocks().all(Status.OK));
      }
    }
  }

  /**
   * "Key confusion": hash seeds that differ make every lookup miss for ever; keys without model,
   * dtype or layout.
   */
  @Test
  void wound09_keyConfusion() {
    try (TestDaemon _ = TestDaemon.start(folder, MEMORY_ALONE);
        KvtierClient one = open();
        KvtierClient other = open()) {
      put(one, one.namespace("llama", BLOCK_BYTES, Map.of("hash_seed", "0")), 0, 4);
      KvtierException confused =
          assertThrows(
              KvtierException.class,
              () -> other.namespace("llama", BLOCK_BYTES, Map.of("hash_seed", "1")),
              "other properties under the same name are refused");
      assertEquals(Status.NAMESPACE_MISMATCH, confused.status());
      assertTrue(
          String.valueOf(confused.getMessage()).contains("hash_seed is '0' there, '1' here"));
      Namespace apart = other.namespace("mistral", BLOCK_BYTES, Map.of("hash_seed", "0"));
      assertAll(Status.MISS, statuses(other, apart, 0, 4));
    }
  }

  /**
   * "Open doors": remote code execution through an admin port without a password, pickle on a
   * socket.
   */
  @Test
  void wound10_openDoors() {
    for (String section : List.of("grpc", "http")) {
      IllegalStateException refused =
          assertThrows(
              IllegalStateException.class,
              () ->
                  TestDaemon.start(
                      folder,
                      with(
                          MEMORY_ALONE,
                          section + ".enabled=true",
                          section + ".port=0",
                          section + ".host=0.0.0.0")),
              "a listener that anybody reaches is refused");
      assertTrue(String.valueOf(refused.getMessage()).contains("TLS"), refused::getMessage);
    }
    noClasses()
        .should()
        .dependOnClassesThat()
        .areAssignableTo(ObjectInputStream.class)
        .check(
            new ClassFileImporter()
                .withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
                .importPackages("io.kvtier"));
  }

  // Wound 11, GPU memory taken from the engine, is io.kvtier.daemon.DeviceRegionEndToEndTest's.

  /**
   * "Slow tiers slower than recompute": a time to the first token of 40 s from disk against 0.9 s.
   * A lookup says what a load would take.
   */
  @Test
  void wound12_slowTiersSlowerThanRecompute() {
    storeOnSsdAlone(200);
    try (TestDaemon _ = TestDaemon.start(folder, TWO_TIERS);
        KvtierClient client = open()) {
      Namespace namespace = namespace(client);
      assertAll(Status.OK, statuses(client, namespace, 0, 40));
      LookupResult below = client.blocking().lookup(namespace, keys(100, 10));
      assertTrue(IntStream.range(0, 10).allMatch(i -> below.blocks().tier(i) == TierId.SSD));
      assertTrue(below.loadTimeNs() > 0, "a load from SSD takes time");
      LookupResult more = client.blocking().lookup(namespace, keys(100, 100));
      // What was read meanwhile may have changed the estimate, but not so much.
      assertTrue(more.loadTimeNs() >= 5 * below.loadTimeNs(), "ten times as much");
      LookupResult above = client.blocking().lookup(namespace, keys(0, 10));
      assertTrue(IntStream.range(0, 10).allMatch(i -> above.blocks().tier(i) == TierId.HOST));
      assertEquals(0, above.loadTimeNs());
      assertFalse(more.loadTimeNs() > TimeUnit.MINUTES.toNanos(1), "of this machine's disk");
    }
  }
}
