package io.kvtier.systemtests;

import static io.kvtier.systemtests.Patterns.empty;
import static io.kvtier.systemtests.Patterns.filled;
import static io.kvtier.systemtests.Patterns.keys;
import static io.kvtier.systemtests.Patterns.matches;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.client.BatchResult;
import io.kvtier.client.CacheClient;
import io.kvtier.client.CacheNamespace;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Leases;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.client.RemoteClient;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Java clients that expect blocks from another node, which has not written them yet. */
@Timeout(value = 180, unit = TimeUnit.SECONDS)
final class ExpectedBlocksTest {
  /** The transport of the client that expects blocks. */
  enum Way {
    SOCKET,
    GRPC
  }

  private static final int BLOCK_BYTES = 256 << 10;

  /** More than one window of a get. */
  private static final int COUNT = 24;

  private static final Options EXPECTING =
      Options.DEFAULT.withTimeout(Duration.ofSeconds(60)).withExpectedFrom("prefill");
  private static final AtomicReference<TestDaemon> PREFILL = new AtomicReference<>();
  private static final AtomicReference<TestDaemon> DECODE = new AtomicReference<>();
  private static final AtomicReference<String> GRPC = new AtomicReference<>();

  @BeforeAll
  static void startDaemons(@TempDir Path folder) throws IOException {
    int prefillPort = freePort();
    int grpcPort = freePort();
    GRPC.set("grpc://127.0.0.1:" + grpcPort);
    PREFILL.set(
        start(
            folder.resolve("prefill"),
            "nodes.name=prefill",
            "nodes.listen=127.0.0.1:" + prefillPort));
    DECODE.set(
        start(
            folder.resolve("decode"),
            "nodes.name=decode",
            "nodes.peers=127.0.0.1:" + prefillPort,
            "grpc.enabled=true",
            "grpc.port=" + grpcPort));
    awaitConnection();
  }

  /** Waits until the decode node can read a block of the prefill node. */
  private static void awaitConnection() {
    try (CacheClient decode = open(Way.SOCKET);
        KvtierClient prefill = prefill();
        Arena arena = Arena.ofShared()) {
      Keys keys = keys(0, 1);
      BatchResult put =
          namespace(prefill, "first")
              .put(keys, filled(arena, 0, 1, BLOCK_BYTES), Options.DEFAULT)
              .join();
      assertTrue(put.isComplete(), put::toString);
      List<MemorySegment> into = empty(arena, 1, BLOCK_BYTES);
      CacheNamespace namespace = namespace(decode, "first");
      await(() -> namespace.get(keys, into, Options.DEFAULT).join().isComplete());
    }
  }

  @AfterAll
  static void stopDaemons() {
    Objects.requireNonNull(PREFILL.get()).close();
    Objects.requireNonNull(DECODE.get()).close();
  }

  private static TestDaemon start(Path folder, String... settings) throws IOException {
    Files.createDirectory(folder);
    String[] all = new String[settings.length + 4];
    all[0] = "host.bytes=64MiB";
    all[1] = "host.slab_bytes=16MiB";
    all[2] = "ssd.bytes=0";
    all[3] = "nodes.security=plaintext_without_tokens";
    System.arraycopy(settings, 0, all, 4, settings.length);
    return TestDaemon.start(folder, all);
  }

  private static int freePort() throws IOException {
    try (ServerSocket probe = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return probe.getLocalPort();
    }
  }

  private static CacheClient open(Way way) {
    CacheClient client =
        switch (way) {
          case SOCKET -> local(Objects.requireNonNull(DECODE.get()));
          case GRPC ->
              RemoteClient.builder(Objects.requireNonNull(GRPC.get()))
                  .timeout(Duration.ofSeconds(30))
                  .build();
        };
    await(() -> client.ping().join().status() == Status.OK);
    return client;
  }

  private static KvtierClient local(TestDaemon daemon) {
    return KvtierClient.builder().socket(daemon.socket()).timeout(Duration.ofSeconds(30)).build();
  }

  private static KvtierClient prefill() {
    return local(Objects.requireNonNull(PREFILL.get()));
  }

  private static CacheNamespace namespace(CacheClient client, String name) {
    return client.namespace(name, BLOCK_BYTES, Map.of("model", "test"));
  }

  private static void await(BooleanSupplier condition) {
    while (!condition.getAsBoolean()) {
      TestDaemon.pause(20);
    }
  }

  private static void awaitFollowed(CacheClient prefill, long blocks) {
    await(() -> Objects.requireNonNull(prefill.counters().get("followed")) == blocks);
  }

  @ParameterizedTest
  @EnumSource
  void get_ofBlocksThatANodeIsGoingToHave_waitsUntilTheyAreWrittenThere(Way way) {
    try (CacheClient decode = open(way);
        KvtierClient prefill = prefill();
        Arena arena = Arena.ofShared()) {
      Keys keys = keys(0, COUNT);
      List<MemorySegment> into = empty(arena, COUNT, BLOCK_BYTES);
      CompletableFuture<BatchResult> get =
          namespace(decode, "get-" + way).get(keys, into, EXPECTING);
      await(() -> Objects.requireNonNull(prefill.counters().get("followed")) > 0);
      assertFalse(get.isDone());
      BatchResult put =
          namespace(prefill, "get-" + way)
              .put(keys, filled(arena, 0, COUNT, BLOCK_BYTES), Options.DEFAULT)
              .join();
      assertTrue(put.blocks().all(Status.OK), put::toString);
      BatchResult got = get.join();
      assertTrue(got.isComplete(), got::toString);
      assertEquals(TierId.NODE, got.blocks().tier(0));
      for (int i = 0; i < COUNT; i++) {
        assertTrue(matches(into.get(i), i), "bytes of block " + i);
      }
      awaitFollowed(prefill, 0);
    }
  }

  @ParameterizedTest
  @EnumSource
  void get_ofBlocksOfWhichOneIsLate_hasTheOthers(Way way) {
    try (CacheClient decode = open(way);
        KvtierClient prefill = prefill();
        Arena arena = Arena.ofShared()) {
      int count = 4;
      List<MemorySegment> into = empty(arena, count, BLOCK_BYTES);
      CompletableFuture<BatchResult> get =
          namespace(decode, "one-late-" + way)
              .get(keys(0, count), into, EXPECTING.withTimeout(Duration.ofSeconds(4)));
      await(() -> Objects.requireNonNull(prefill.counters().get("followed")) == count);
      BatchResult put =
          namespace(prefill, "one-late-" + way)
              .put(keys(0, count - 1), filled(arena, 0, count - 1, BLOCK_BYTES), Options.DEFAULT)
              .join();
      assertTrue(put.isComplete(), put::toString);
      BatchResult got = get.join();
      assertEquals(count - 1, got.blocks().count(Status.OK), got::toString);
      for (int i = 0; i < count - 1; i++) {
        assertTrue(matches(into.get(i), i), "bytes of block " + i);
      }
      awaitFollowed(prefill, 0);
    }
  }

  @ParameterizedTest
  @EnumSource
  void get_thatWaitsForNothing_expectsNothing(Way way) {
    try (CacheClient decode = open(way);
        Arena arena = Arena.ofShared()) {
      CacheNamespace namespace = namespace(decode, "no-wait-" + way);
      List<MemorySegment> into = empty(arena, 2, BLOCK_BYTES);
      Options noWait = EXPECTING.withNoWait(true);
      // PENDING as long as the other node is asked whether it has the blocks already.
      await(() -> namespace.get(keys(0, 2), into, noWait).join().blocks().all(Status.MISS));
    }
  }

  @ParameterizedTest
  @EnumSource
  void get_ofBlocksThatNobodyWrites_endsAtItsTimeout(Way way) {
    try (CacheClient decode = open(way);
        KvtierClient prefill = prefill();
        Arena arena = Arena.ofShared()) {
      BatchResult got =
          namespace(decode, "late-" + way)
              .get(
                  keys(0, 2),
                  empty(arena, 2, BLOCK_BYTES),
                  EXPECTING.withTimeout(Duration.ofSeconds(1)))
              .join();
      assertEquals(0, got.blocks().count(Status.OK), got::toString);
      awaitFollowed(prefill, 0);
    }
  }

  @ParameterizedTest
  @EnumSource
  void get_ofANodeThatIsUnknown_isAMissAtOnce(Way way) {
    try (CacheClient decode = open(way);
        Arena arena = Arena.ofShared()) {
      BatchResult got =
          namespace(decode, "unknown-" + way)
              .get(
                  keys(0, 2), empty(arena, 2, BLOCK_BYTES), EXPECTING.withExpectedFrom("elsewhere"))
              .join();
      assertTrue(got.blocks().all(Status.MISS), got::toString);
    }
  }

  @Test
  void acquire_ofBlocksThatANodeIsGoingToHave_leasesThem() {
    try (KvtierClient decode = local(Objects.requireNonNull(DECODE.get()));
        KvtierClient prefill = prefill();
        Arena arena = Arena.ofShared()) {
      Keys keys = keys(0, COUNT);
      Namespace namespace = decode.namespace("acquire", BLOCK_BYTES, Map.of("model", "test"));
      CompletableFuture<Leases> acquire = namespace.acquire(keys, EXPECTING);
      awaitFollowed(prefill, COUNT);
      assertFalse(acquire.isDone());
      BatchResult put =
          namespace(prefill, "acquire")
              .put(keys, filled(arena, 0, COUNT, BLOCK_BYTES), Options.DEFAULT)
              .join();
      assertTrue(put.blocks().all(Status.OK), put::toString);
      try (Leases leases = acquire.join()) {
        assertTrue(leases.blocks().all(Status.OK), leases::detail);
        assertTrue(matches(leases.segment(COUNT - 1), COUNT - 1));
      }
    }
  }
}
