package io.kvtier.systemtests;

import static io.kvtier.systemtests.Patterns.empty;
import static io.kvtier.systemtests.Patterns.filled;
import static io.kvtier.systemtests.Patterns.keys;
import static io.kvtier.systemtests.Patterns.matches;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.bench.ServerCertificate;
import io.kvtier.client.BatchResult;
import io.kvtier.client.CacheClient;
import io.kvtier.client.CacheNamespace;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.KvtierException;
import io.kvtier.client.Leases;
import io.kvtier.client.LookupResult;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.client.RemoteClient;
import io.kvtier.client.TextResult;
import io.kvtier.client.ValueResult;
import io.kvtier.protocol.LoadReport;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.access.Token;
import io.kvtier.protocol.access.TokenLine;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
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
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * The contract of {@link CacheClient}, for the client over the socket and for the client over gRPC
 * with TLS and a token.
 */
@Timeout(value = 180, unit = TimeUnit.SECONDS)
final class ClientContractTest {
  /** The transport of a client. */
  enum Way {
    SOCKET,
    GRPCS
  }

  private static final int BLOCK_BYTES = 4096;
  private static final AtomicReference<TestDaemon> DAEMON = new AtomicReference<>();
  private static final AtomicReference<Path> FOLDER = new AtomicReference<>();
  private static final AtomicReference<Path> CERTIFICATE = new AtomicReference<>();
  private static final AtomicReference<Integer> PORT = new AtomicReference<>(0);

  @BeforeAll
  static void startDaemon(@TempDir Path folder) throws Exception {
    FOLDER.set(folder);
    ServerCertificate certificate = ServerCertificate.in(folder);
    CERTIFICATE.set(certificate.certificate());
    SecureRandom random = new SecureRandom();
    Token token = Token.make(random);
    Files.writeString(
        folder.resolve("tokens"),
        TokenLine.of(token, "w", Role.WRITE, "", null, random).text() + "\n");
    Files.writeString(folder.resolve("token"), token.secretText());
    try (ServerSocket probe = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      PORT.set(probe.getLocalPort());
    }
    DAEMON.set(
        TestDaemon.start(
            folder,
            "host.bytes=128MiB",
            "host.slab_bytes=16MiB",
            "ssd.bytes=512MiB",
            "ssd.file_bytes=64MiB",
            "grpc.enabled=true",
            "grpc.port=" + PORT.get(),
            "tls.certificate=" + certificate.certificate(),
            "tls.key=" + certificate.key(),
            "access.tokens=" + folder.resolve("tokens")));
  }

  @AfterAll
  static void stopDaemon() {
    Objects.requireNonNull(DAEMON.get()).close();
  }

  private static String address() {
    return "grpcs://127.0.0.1:" + PORT.get();
  }

  private static RemoteClient.Builder remote() {
    Path folder = Objects.requireNonNull(FOLDER.get());
    return RemoteClient.builder(address())
        .authority(Objects.requireNonNull(CERTIFICATE.get()))
        .tokenFile(folder.resolve("token"))
        .timeout(Duration.ofSeconds(30));
  }

  private static CacheClient open(Way way) {
    CacheClient client =
        switch (way) {
          case SOCKET ->
              KvtierClient.builder()
                  .socket(Objects.requireNonNull(DAEMON.get()).socket())
                  .timeout(Duration.ofSeconds(30))
                  .build();
          case GRPCS -> remote().build();
        };
    // On a busy machine a client may give up waiting once before the daemon has answered.
    for (int i = 0; i < 60 && client.ping().join().status() != Status.OK; i++) {
      TestDaemon.pause(500);
    }
    assertTrue(client.isConnected(), () -> client.ping().join().detail());
    return client;
  }

  private static CacheNamespace namespace(CacheClient client, Way way, String name) {
    return client.namespace(
        way + "-" + name, BLOCK_BYTES, Map.of("model", "test", "dtype", "bf16"));
  }

  private static void assertFilled(List<MemorySegment> blocks, int from) {
    for (int i = 0; i < blocks.size(); i++) {
      assertTrue(matches(blocks.get(i), from + i), "bytes of block " + i);
    }
  }

  @ParameterizedTest
  @EnumSource
  void get_afterPut_isTheSameBytes(Way way) {
    try (CacheClient client = open(way);
        Arena arena = Arena.ofShared()) {
      CacheNamespace namespace = namespace(client, way, "bytes");
      Keys keys = keys(0, 50);
      List<MemorySegment> written = filled(arena, 0, 50, BLOCK_BYTES);
      BatchResult put = namespace.put(keys, written, Options.DEFAULT).join();
      assertTrue(put.blocks().all(Status.OK), put::toString);
      BatchResult again = namespace.put(keys, written, Options.DEFAULT).join();
      assertTrue(again.blocks().all(Status.EXISTS), again::toString);
      assertTrue(again.isComplete());
      List<MemorySegment> read = empty(arena, 50, BLOCK_BYTES);
      BatchResult got = namespace.get(keys, read, Options.DEFAULT).join();
      assertTrue(got.isComplete(), got::toString);
      assertFilled(read, 0);
      List<MemorySegment> arrays = new ArrayList<>();
      for (int i = 0; i < 50; i++) {
        arrays.add(MemorySegment.ofArray(new byte[BLOCK_BYTES]));
      }
      assertTrue(namespace.get(keys, arrays, Options.DEFAULT).join().isComplete());
      assertFilled(arrays, 0);
    }
  }

  /** Blocks of which every third has no likeness to KV, and does not fit its encoded form. */
  private static List<MemorySegment> kv(Arena arena, int count, int blockBytes) {
    SplittableRandom random = new SplittableRandom(count);
    List<MemorySegment> blocks = empty(arena, count, blockBytes);
    for (int i = 0; i < count; i++) {
      for (long at = 0; at < blockBytes / Short.BYTES; at++) {
        int exponent = i % 3 == 0 ? random.nextInt(256) : 120 - random.nextInt(10);
        int element = (random.nextInt() & 0x807f) | (exponent << 7);
        blocks.get(i).setAtIndex(ValueLayout.JAVA_SHORT, at, (short) element);
      }
    }
    return blocks;
  }

  private static void assertEqual(List<MemorySegment> expected, List<MemorySegment> found) {
    for (int i = 0; i < expected.size(); i++) {
      assertEquals(-1, expected.get(i).mismatch(found.get(i)), "block " + i);
    }
  }

  @ParameterizedTest
  @EnumSource
  void encodedBlocks_andThoseThatDoNotFit_comeBackByEveryWay(Way way) {
    int blockBytes = 1 << 16;
    int count = 200;
    Map<String, String> properties = Map.of("encoding", "exact bf16 4096");
    Keys keys = keys(0, count);
    try (Arena arena = Arena.ofShared()) {
      List<MemorySegment> written = kv(arena, count, blockBytes);
      try (CacheClient writer = open(way)) {
        CacheNamespace namespace = writer.namespace(way + "-forms", blockBytes, properties);
        BatchResult put = namespace.put(keys, written, Options.DEFAULT).join();
        assertTrue(put.blocks().all(Status.OK), put::toString);
      }
      for (Way other : Way.values()) {
        try (CacheClient reader = open(other)) {
          CacheNamespace namespace = reader.namespace(way + "-forms", blockBytes, properties);
          List<MemorySegment> read = empty(arena, count, blockBytes);
          BatchResult got = namespace.get(keys, read, Options.DEFAULT).join();
          assertTrue(got.isComplete(), got::toString);
          assertEqual(written, read);
          if (namespace instanceof Namespace local) {
            try (Leases leases = local.acquire(keys, Options.DEFAULT).join()) {
              assertEquals(count, leases.granted());
              assertEqual(written, IntStream.range(0, count).mapToObj(leases::segment).toList());
              assertTrue(leases.verify());
            }
          }
        }
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void batch_overKeysMax_isSplitAndJoined(Way way) {
    int count = 2 * Protocol.KEYS_MAX + 500;
    try (CacheClient client = open(way);
        Arena arena = Arena.ofShared()) {
      CacheNamespace namespace = namespace(client, way, "large");
      Keys keys = keys(0, count);
      assertTrue(
          namespace
              .put(keys, filled(arena, 0, count, BLOCK_BYTES), Options.DEFAULT)
              .join()
              .isComplete());
      assertEquals(count, namespace.lookup(keys, Options.DEFAULT).join().run());
      List<MemorySegment> read = empty(arena, count, BLOCK_BYTES);
      assertTrue(namespace.get(keys, read, Options.DEFAULT).join().isComplete());
      assertFilled(read, 0);
      assertTrue(namespace.delete(keys, Options.DEFAULT).join().blocks().all(Status.OK));
      assertEquals(0, namespace.lookup(keys, Options.DEFAULT).join().run());
    }
  }

  @ParameterizedTest
  @EnumSource
  void lookup_holes_endTheRun(Way way) {
    try (CacheClient client = open(way);
        Arena arena = Arena.ofShared()) {
      CacheNamespace namespace = namespace(client, way, "holes");
      assertTrue(put(namespace, arena, 0, 3).isComplete());
      assertTrue(put(namespace, arena, 5, 2).isComplete());
      Keys all = keys(0, 8);
      LookupResult found = namespace.lookup(all, Options.DEFAULT).join();
      assertEquals(3, found.run());
      assertEquals(5, found.blocks().count(Status.OK));
      assertEquals(Status.MISS, found.blocks().status(3));
      assertEquals(TierId.HOST, found.blocks().tier(5));
      List<MemorySegment> read = empty(arena, 8, BLOCK_BYTES);
      BatchResult got = namespace.get(all, read, Options.DEFAULT).join();
      assertEquals(found.blocks().statuses(), got.blocks().statuses());
      assertFilled(read.subList(5, 7), 5);
      BatchResult run = namespace.get(all, read, Options.DEFAULT.withLeadingRun(true)).join();
      assertEquals(3, run.run());
      assertEquals(3, run.blocks().count(Status.OK));
      assertEquals(5, run.blocks().count(Status.MISS));
    }
  }

  private static BatchResult put(CacheNamespace namespace, Arena arena, int from, int count) {
    return namespace
        .put(keys(from, count), filled(arena, from, count, BLOCK_BYTES), Options.DEFAULT)
        .join();
  }

  @ParameterizedTest
  @EnumSource
  void twoClients_shareBlocks_otherPropertiesAreRefused(Way way) {
    try (CacheClient writer = open(way);
        CacheClient reader = open(way);
        Arena arena = Arena.ofShared()) {
      assertTrue(put(namespace(writer, way, "shared"), arena, 0, 20).isComplete());
      List<MemorySegment> copies = empty(arena, 20, BLOCK_BYTES);
      CacheNamespace read = namespace(reader, way, "shared");
      assertEquals(Status.OK, read.status());
      assertTrue(read.get(keys(0, 20), copies, Options.DEFAULT).join().isComplete());
      assertFilled(copies, 0);
      KvtierException refused =
          assertThrows(
              KvtierException.class,
              () ->
                  reader.namespace(
                      way + "-shared", BLOCK_BYTES, Map.of("model", "test", "dtype", "fp8")));
      assertEquals(Status.NAMESPACE_MISMATCH, refused.status());
      assertTrue(String.valueOf(refused.getMessage()).contains("dtype"), refused::getMessage);
    }
  }

  @ParameterizedTest
  @EnumSource
  void put_ofEachImportance_isTaken(Way way) {
    try (CacheClient client = open(way);
        Arena arena = Arena.ofShared()) {
      CacheNamespace namespace = namespace(client, way, "important");
      for (int importance = 0; importance <= 3; importance++) {
        MemorySegment block = arena.allocate(BLOCK_BYTES);
        Options options = Options.DEFAULT.withImportance(importance);
        assertTrue(namespace.put(keys(importance, 1), List.of(block), options).join().isComplete());
      }
      assertEquals(4, namespace.lookup(keys(0, 4), Options.DEFAULT).join().run());
      assertThrows(IllegalArgumentException.class, () -> Options.DEFAULT.withImportance(4));
    }
  }

  @ParameterizedTest
  @EnumSource
  void retain_keepsBlocksOrSaysWhyNot(Way way) {
    try (CacheClient client = open(way);
        Arena arena = Arena.ofShared()) {
      CacheNamespace namespace = namespace(client, way, "retained");
      Keys keys = keys(0, 10);
      assertTrue(put(namespace, arena, 0, 9).isComplete());
      BatchResult retained = namespace.retain(keys, Duration.ofMinutes(5), Options.DEFAULT).join();
      assertEquals(Status.OK, retained.status());
      assertEquals(9, retained.run());
      assertEquals(Status.MISS, retained.blocks().status(9));
      assertTrue(client.counters().getOrDefault("retained_blocks", 0L) <= 9);
      BatchResult tooLong =
          namespace.retain(keys, Duration.ofDays(10_000_000), Options.DEFAULT).join();
      assertEquals(Status.INVALID_ARGUMENT, tooLong.status());
      assertTrue(tooLong.detail().contains("limits.retention_max"), tooLong::detail);
      assertThrows(
          IllegalArgumentException.class,
          () -> namespace.retain(keys, Duration.ofSeconds(-1), Options.DEFAULT));
      assertEquals(
          Status.OK, namespace.retain(keys, Duration.ZERO, Options.DEFAULT).join().status());
    }
  }

  @ParameterizedTest
  @EnumSource
  void pinPrefetchClearFlush_answer(Way way) {
    try (CacheClient client = open(way);
        Arena arena = Arena.ofShared()) {
      CacheNamespace namespace = namespace(client, way, "verbs");
      Keys keys = keys(0, 10);
      assertTrue(put(namespace, arena, 0, 10).isComplete());
      assertTrue(namespace.pin(keys, Options.DEFAULT).join().isComplete());
      assertTrue(namespace.unpin(keys, Options.DEFAULT).join().isComplete());
      assertTrue(namespace.prefetch(keys, Options.DEFAULT).join().isComplete());
      // Neither the unpin nor the prefetch left a pin.
      assertTrue(namespace.unpin(keys, Options.DEFAULT).join().blocks().all(Status.MISS));
      assertEquals(
          Status.MISS, namespace.pin(keys(90, 1), Options.DEFAULT).join().blocks().status(0));
      assertEquals(Status.OK, namespace.flush(Options.DEFAULT).join().status());
      assertEquals(10, namespace.clear(Options.DEFAULT).join().value());
      assertEquals(0, namespace.lookup(keys, Options.DEFAULT).join().blocks().count(Status.OK));
      TextResult stats = client.stats().join();
      assertEquals(Status.OK, stats.status());
      assertTrue(stats.text().contains("\"counters\""), stats::text);
      assertTrue(client.counters().getOrDefault("put_blocks", 0L) >= 10);
    }
  }

  @ParameterizedTest
  @EnumSource
  void options_groupsAreApart_annotationsAreBounded(Way way) {
    try (CacheClient client = open(way);
        Arena arena = Arena.ofShared()) {
      CacheNamespace namespace = namespace(client, way, "options");
      Keys keys = keys(0, 4);
      Options third = Options.DEFAULT.withGroup(3).withDepth(17).withParent(keys(99, 1));
      List<MemorySegment> blocks = filled(arena, 0, 4, BLOCK_BYTES);
      List<byte[]> annotations = Collections.nCopies(4, new byte[] {1, 2, 3});
      assertTrue(namespace.put(keys, blocks, annotations, third).join().isComplete());
      assertEquals(4, namespace.lookup(keys, third).join().run());
      assertEquals(0, namespace.lookup(keys, Options.DEFAULT.withGroup(2)).join().run());
      List<byte[]> tooLong = Collections.nCopies(4, new byte[2049]);
      assertThrows(
          IllegalArgumentException.class, () -> namespace.put(keys, blocks, tooLong, third));
    }
  }

  @ParameterizedTest
  @EnumSource
  void reportLoads_blocksThatWereGot_areCounted(Way way) {
    try (CacheClient client = open(way);
        Arena arena = Arena.ofShared()) {
      CacheNamespace namespace = namespace(client, way, "loads");
      Keys keys = keys(0, 3);
      BatchResult put =
          namespace.put(keys, filled(arena, 0, 3, BLOCK_BYTES), Options.DEFAULT).join();
      assertTrue(put.blocks().all(Status.OK), put::toString);
      List<MemorySegment> read = empty(arena, 3, BLOCK_BYTES);
      assertTrue(namespace.get(keys, read, Options.DEFAULT).join().isComplete());
      long before = client.counters().getOrDefault("saved_tokens", -1L);
      LoadReport report = new LoadReport(3, 48, 250_000_000, 1_000_000);
      assertEquals(Status.OK, namespace.reportLoads(report, Options.DEFAULT).join().status());
      ValueResult again = namespace.reportLoads(report, Options.DEFAULT).join();
      assertEquals(Status.INVALID_ARGUMENT, again.status());
      assertTrue(again.detail().startsWith("the report is about 3 blocks"), again.detail());
      assertEquals(before + 48, client.counters().getOrDefault("saved_tokens", -1L));
      LoadReport wrong = new LoadReport(1, -1, 0, 0);
      assertThrows(
          IllegalArgumentException.class, () -> namespace.reportLoads(wrong, Options.DEFAULT));
    }
  }

  @ParameterizedTest
  @EnumSource
  void misuse_isThrown(Way way) {
    try (CacheClient client = open(way);
        Arena arena = Arena.ofShared()) {
      CacheNamespace namespace = namespace(client, way, "misuse");
      List<MemorySegment> one = empty(arena, 1, BLOCK_BYTES);
      for (List<MemorySegment> wrong :
          List.of(
              List.<MemorySegment>of(),
              List.of(one.getFirst().asReadOnly()),
              List.of(one.getFirst().asSlice(1)),
              List.of(MemorySegment.ofArray(new int[BLOCK_BYTES / 4])))) {
        assertThrows(
            IllegalArgumentException.class,
            () -> namespace.get(keys(0, 1), wrong, Options.DEFAULT),
            wrong::toString);
      }
      assertThrows(
          IllegalArgumentException.class,
          () -> namespace.put(keys(0, 1), List.of(one.getFirst().asSlice(1)), Options.DEFAULT));
      assertThrows(
          IllegalArgumentException.class,
          () -> client.namespace(way + "-misuse", BLOCK_BYTES, Map.of("model", "two\nlines")));
    }
  }

  @ParameterizedTest
  @EnumSource
  void manyAtOnce_eachGetsItsOwnBytes(Way way) {
    try (CacheClient client = open(way);
        Arena arena = Arena.ofShared()) {
      CacheNamespace namespace = namespace(client, way, "many");
      assertTrue(put(namespace, arena, 0, 200).isComplete());
      List<List<MemorySegment>> read = new ArrayList<>();
      List<CompletableFuture<BatchResult>> gets = new ArrayList<>();
      for (int i = 0; i < 150; i++) {
        List<MemorySegment> into = empty(arena, 10, BLOCK_BYTES);
        read.add(into);
        gets.add(namespace.get(keys(i, 10), into, Options.DEFAULT));
      }
      for (int i = 0; i < gets.size(); i++) {
        BatchResult got = gets.get(i).join();
        assertTrue(got.isComplete(), got::toString);
        assertFilled(read.get(i), i);
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void closedClient_answersUnavailable(Way way) {
    CacheClient client = open(way);
    CacheNamespace namespace = namespace(client, way, "closed");
    client.close();
    LookupResult found = namespace.lookup(keys(0, 2), Options.DEFAULT).join();
    assertTrue(found.blocks().all(Status.UNAVAILABLE), found::toString);
    try (Arena arena = Arena.ofShared()) {
      BatchResult put = put(namespace, arena, 0, 2);
      assertTrue(put.blocks().all(Status.UNAVAILABLE), put::toString);
    }
    assertEquals(Status.UNAVAILABLE, namespace.flush(Options.DEFAULT).join().status());
    assertEquals(Map.of(), client.counters());
    assertFalse(client.isConnected());
  }

  @Test
  void open_connectionString_decides() {
    try (CacheClient remote = CacheClient.open("grpc://localhost:1");
        CacheClient local = CacheClient.open("/nowhere/kvtier.sock")) {
      assertInstanceOf(RemoteClient.class, remote);
      assertInstanceOf(KvtierClient.class, local);
      assertEquals(Status.UNAVAILABLE, remote.ping().join().status());
    }
    assertThrows(IllegalArgumentException.class, () -> CacheClient.open("grpcs://host:0"));
    assertThrows(IllegalArgumentException.class, () -> CacheClient.open("grpcs://"));
  }

  @Test
  void remote_withoutATokenOrTrust_isRefused() {
    Path folder = Objects.requireNonNull(FOLDER.get());
    try (RemoteClient nobody =
        RemoteClient.builder(address())
            .authority(Objects.requireNonNull(CERTIFICATE.get()))
            .build()) {
      assertEquals(Status.DENIED, nobody.ping().join().status());
    }
    try (RemoteClient distrustful =
        RemoteClient.builder(address()).tokenFile(folder.resolve("token")).build()) {
      assertEquals(Status.UNAVAILABLE, distrustful.ping().join().status());
    }
    assertThrows(
        IllegalArgumentException.class,
        () -> RemoteClient.builder("grpc://kvtier.example").token("kvt_1").build());
  }
}
