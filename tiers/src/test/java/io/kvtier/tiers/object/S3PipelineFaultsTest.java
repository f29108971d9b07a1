package io.kvtier.tiers.object;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The pipeline over S3 with a network that does wrong: all comes back, right or not at all. */
final class S3PipelineFaultsTest {
  private static final int BLOCK_BYTES = 200_000;
  private static final int BLOCKS = 24;
  private static S3Server server;

  private final Arena arena = Arena.ofShared();
  private final ObjectTransfers transfers = new ObjectTransfers(arena, BLOCK_BYTES);
  private final Semaphore bell = new Semaphore(0);
  private final AtomicReference<@Nullable Throwable> defect = new AtomicReference<>();
  private FaultProxy proxy;
  private S3ObjectStore store;
  private ObjectPipeline pipeline;

  @BeforeAll
  static void start() {
    server = S3Server.start();
  }

  @AfterAll
  static void stop() throws IOException {
    server.close();
  }

  @BeforeEach
  void open() throws Exception {
    proxy = new FaultProxy(server.port());
    store =
        new S3ObjectStore(
            S3Options.of(S3Server.endpoint(proxy.port()), "us-east-1", S3Server.BUCKET),
            S3Server.credentials());
    pipeline = pipeline(TimeUnit.SECONDS.toNanos(60), "planes");
    for (int i = 0; i < BLOCKS; i++) {
      assertTrue(pipeline.offer(transfers.store(i)));
    }
    for (Transfer transfer : collect(BLOCKS)) {
      assertEquals(Status.OK, transfer.status);
    }
  }

  private ObjectPipeline pipeline(long loadTimeoutNs, String codec) {
    return pipeline(store, loadTimeoutNs, codec);
  }

  private ObjectPipeline pipeline(ObjectStore on, long loadTimeoutNs, String codec) {
    return new ObjectPipeline(
        "object-test",
        on,
        new ObjectPipelineOptions(
            new ObjectPipelineOptions.Capacity(64, 2),
            codec,
            new ObjectPipelineOptions.Times(loadTimeoutNs, TimeUnit.SECONDS.toNanos(60), 0),
            new ObjectPipelineOptions.Calls(4, 1, 16),
            ObjectPipelineOptions.Bandwidth.UNLIMITED,
            new ObjectPipelineOptions.Breaker(
                4, TimeUnit.MILLISECONDS.toNanos(20), TimeUnit.MILLISECONDS.toNanos(50)),
            new ObjectPipelineOptions.Retry(3, 1_000_000, 5_000_000, 0.1, 10)),
        null,
        bell::release,
        thrown -> {
          defect.set(thrown);
          bell.release();
        });
  }

  @AfterEach
  void close() throws IOException {
    pipeline.close();
    store.close();
    proxy.close();
    arena.close();
    assertEquals(null, defect.get());
  }

  private List<Transfer> collect(int count) throws InterruptedException {
    List<Transfer> finished = new ArrayList<>();
    while (finished.size() < count) {
      assertTrue(bell.tryAcquire(90, TimeUnit.SECONDS), "hangs after " + finished.size());
      assertEquals(null, defect.get());
      pipeline.collect(finished::add);
    }
    return finished;
  }

  private List<Transfer> load() throws InterruptedException {
    for (int i = 0; i < BLOCKS; i++) {
      assertTrue(pipeline.offer(transfers.load(i)));
    }
    List<Transfer> finished = collect(BLOCKS);
    for (Transfer transfer : finished) {
      if (transfer.status == Status.OK) {
        assertTrue(transfers.holds(transfer, transfer.key[0]), "wrong bytes");
      }
    }
    return finished;
  }

  static List<FaultProxy.Fault> faults() {
    return List.of(
        new FaultProxy.Fault.Reset(0),
        new FaultProxy.Fault.Reset(50_000),
        new FaultProxy.Fault.Truncate(50_000),
        new FaultProxy.Fault.Stall(0),
        new FaultProxy.Fault.Stall(50_000),
        new FaultProxy.Fault.Drip(50, 10),
        new FaultProxy.Fault.Delay(5_000),
        new FaultProxy.Fault.Answer(403, ""),
        new FaultProxy.Fault.Answer(404, ""),
        new FaultProxy.Fault.Answer(412, ""),
        new FaultProxy.Fault.Answer(429, ""),
        new FaultProxy.Fault.Answer(500, ""),
        new FaultProxy.Fault.Answer(503, "Retry-After: 1\r\n"),
        new FaultProxy.Fault.Corrupt(50_000));
  }

  @ParameterizedTest
  @MethodSource("faults")
  void load_throughAFault_isNoHitAndHealsByItself(FaultProxy.Fault fault) throws Exception {
    pipeline.close();
    pipeline = pipeline(TimeUnit.MILLISECONDS.toNanos(300), "none");
    proxy.set(fault);
    for (Transfer transfer : load()) {
      assertTrue(transfer.status != Status.OK, fault + " let a block through");
    }
    proxy.set(FaultProxy.NONE);
    pipeline.close();
    pipeline = pipeline(TimeUnit.SECONDS.toNanos(60), "none");
    awaitAllLoaded();
  }

  private void awaitAllLoaded() throws InterruptedException {
    long begun = System.nanoTime();
    while (true) {
      long ok = load().stream().filter(transfer -> transfer.status == Status.OK).count();
      if (ok == BLOCKS) {
        return;
      }
      assertTrue(System.nanoTime() - begun < 60e9, "only " + ok + " blocks are loaded again");
    }
  }

  /** The breaker of a pipeline closes by itself. */
  @Test
  void load_storeDownAndUpAgain_isAHitAgain() throws Exception {
    proxy.set(new FaultProxy.Fault.Reset(0));
    for (Transfer transfer : load()) {
      assertTrue(transfer.status != Status.OK);
    }
    assertTrue(pipeline.count(ObjectCounter.KEPT_AWAY) > 0);
    proxy.set(FaultProxy.NONE);
    awaitAllLoaded();
  }

  @Test
  void load_slowStore_isAHitInItsDeadline() throws Exception {
    proxy.set(new FaultProxy.Fault.Delay(50));
    for (Transfer transfer : load()) {
      assertEquals(Status.OK, transfer.status);
    }
  }

  /** A server that is slow by itself: its latency, then its bandwidth. */
  @ParameterizedTest
  @ValueSource(strings = {"get.latency=5000", "get.speed=1"})
  void load_slowServer_isNoHitAndNothingHangs(String property) throws Exception {
    Properties slow = new Properties();
    int equals = property.indexOf('=');
    slow.setProperty(
        "s3proxy.latency-blobstore." + property.substring(0, equals),
        property.substring(equals + 1));
    pipeline.close();
    try (S3Server slowServer = S3Server.start(slow);
        S3ObjectStore slowStore =
            new S3ObjectStore(
                S3Options.of(slowServer.endpoint(), "us-east-1", S3Server.BUCKET),
                S3Server.credentials())) {
      pipeline = pipeline(slowStore, TimeUnit.SECONDS.toNanos(60), "none");
      for (int i = 0; i < BLOCKS; i++) {
        assertTrue(pipeline.offer(transfers.store(i)));
      }
      for (Transfer transfer : collect(BLOCKS)) {
        assertEquals(Status.OK, transfer.status);
      }
      pipeline.close();
      pipeline = pipeline(slowStore, TimeUnit.MILLISECONDS.toNanos(300), "none");
      for (Transfer transfer : load()) {
        assertTrue(transfer.status == Status.DEADLINE || transfer.status == Status.MISS);
      }
      pipeline.close();
    }
  }
}
