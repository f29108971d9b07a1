package io.kvtier.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.client.internal.session.FakeDaemon;
import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.Verb;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What requests are made in: which have it, whoever makes them, and what of it is written. */
@Timeout(value = 60, unit = TimeUnit.SECONDS)
final class RequestContextTest {
  private static final String TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
  private static final String SPAN = "00f067aa0ba902b7";
  private static final TraceContext PARENT = RequestContext.of("00-" + TRACE + "-" + SPAN + "-01");
  private static final TraceContext OTHER = RequestContext.ofRequestId("1".repeat(32));
  private static final String KEY = "0102030405060708";
  private static final Keys ONE_KEY = Keys.of(new byte[] {1, 2, 3, 4, 5, 6, 7, 8});
  private static final int BLOCK_BYTES = FakeDaemon.SLAB_BYTES;

  @TempDir private Path folder;
  private FakeDaemon daemon;
  private KvtierClient client;
  private Namespace namespace;

  @BeforeEach
  void open() throws IOException {
    daemon = new FakeDaemon(folder.resolve("fake.sock"));
    daemon.script =
        (link, verb, id, count) -> {
          boolean grants = verb == Verb.ACQUIRE || verb == Verb.RESERVE;
          if (grants) {
            // No bytes have this checksum by chance.
            link.grant(
                verb,
                id,
                Collections.nCopies(
                    count,
                    new FakeDaemon.Granted(
                        Status.OK, 7, 0, BLOCK_BYTES, 1, CompletionDescriptor.BLOCK_FLAG_VERIFY)));
          }
          return grants;
        };
    client =
        KvtierClient.builder()
            .socket(folder.resolve("fake.sock"))
            .timeout(Duration.ofSeconds(50))
            .build();
    namespace = client.namespace("n", BLOCK_BYTES, Map.of());
  }

  @AfterEach
  void close() {
    client.close();
    daemon.close();
  }

  private static Keys keys(int count) {
    byte[][] keys = new byte[count][];
    for (int i = 0; i < count; i++) {
      keys[i] = new byte[] {(byte) i};
    }
    return Keys.of(keys);
  }

  private static List<MemorySegment> memory(int count) {
    return Collections.nCopies(count, MemorySegment.ofArray(new byte[BLOCK_BYTES]));
  }

  /** As many requests came, and each was made in that context. */
  private void checkMadeIn(String trace, Verb verb, int count) throws InterruptedException {
    for (int i = 0; i < 30_000 && daemon.asked(verb).size() < count; i++) {
      Thread.sleep(1);
    }
    List<FakeDaemon.Asked> asked = daemon.asked(verb);
    assertEquals(count, asked.size(), verb::name);
    for (FakeDaemon.Asked one : asked) {
      assertTrue(one.has(RequestDescriptor.FLAG_CONTEXT), one::toString);
      int at = one.record().length() - 2 * RequestDescriptor.CONTEXT_BYTES;
      assertEquals(trace, one.record().substring(at, at + 32), verb::name);
    }
  }

  @Test
  void lookup_inAContext_standsBehindTheBody() {
    long before = System.nanoTime();
    RequestContext.run(PARENT, () -> client.blocking().lookup(namespace, ONE_KEY));
    assertEquals(Status.OK, client.blocking().lookup(namespace, ONE_KEY).status());

    FakeDaemon.Asked within = daemon.asked(Verb.LOOKUP).getFirst();
    assertEquals(RequestDescriptor.FLAG_CONTEXT, within.flags());
    String record = within.record();
    int body = 2 * RequestDescriptor.HEADER_BYTES;
    assertEquals(KEY + TRACE + SPAN, record.substring(body, body + 64));
    long written = Long.reverseBytes(Long.parseUnsignedLong(record, body + 64, body + 80, 16));
    assertTrue(written - before >= 0 && written - System.nanoTime() <= 0, record);
    assertEquals("01" + "0".repeat(14), record.substring(body + 80));
    assertEquals(
        2 * Integer.reverseBytes(Integer.parseUnsignedInt(record, 0, 8, 16)), record.length());

    FakeDaemon.Asked without = daemon.asked(Verb.LOOKUP).getLast();
    assertEquals(0, without.flags());
    assertEquals(KEY, without.record().substring(body));
  }

  @Test
  void putAsync_ofSeveralWindows_allIsAskedInItsContext() throws InterruptedException {
    int blocks = 20;
    List<byte[]> annotations = Collections.nCopies(blocks, new byte[] {1});
    BatchResult result =
        RequestContext.call(
                PARENT,
                () -> namespace.put(keys(blocks), memory(blocks), annotations, Options.DEFAULT))
            .join();
    assertTrue(result.blocks().all(Status.OK));
    checkMadeIn(TRACE, Verb.RESERVE, 3);
    checkMadeIn(TRACE, Verb.ANNOTATE, 3);
    checkMadeIn(TRACE, Verb.COMMIT, 3);
  }

  @Test
  void getAsync_ofManyWindows_allIsAskedAndDamageToldInItsContext() throws InterruptedException {
    int windows = 10;
    BatchResult result =
        RequestContext.call(PARENT, () -> namespace.get(keys(4 * windows), memory(4 * windows)))
            .join();
    assertTrue(result.blocks().all(Status.CORRUPT));
    checkMadeIn(TRACE, Verb.ACQUIRE, windows);
    checkMadeIn(TRACE, Verb.RELEASE, windows);
  }

  @Test
  void getAsync_stagesBehindIt_areNotInItsContext() {
    var got = RequestContext.call(PARENT, () -> namespace.get(keys(40), memory(40)));
    assertEquals(Status.OK, got.thenCompose(result -> namespace.lookup(ONE_KEY)).join().status());
    assertFalse(daemon.asked(Verb.LOOKUP).getFirst().has(RequestDescriptor.FLAG_CONTEXT));
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void leases_damaged_closedInAnotherContext_toldInThatOfTheirAcquire(boolean waits)
      throws InterruptedException {
    Leases leases =
        RequestContext.call(PARENT, () -> client.blocking().acquire(namespace, ONE_KEY));
    assertFalse(leases.verify());
    RequestContext.run(
        OTHER,
        () -> {
          if (waits) {
            assertEquals(Status.OK, leases.release().status());
          }
          leases.close();
        });
    checkMadeIn(TRACE, Verb.RELEASE, 1);
  }

  @Test
  void leases_sound_releaseIsTheDaemonsOnly() throws InterruptedException {
    RequestContext.run(PARENT, () -> client.blocking().acquire(namespace, ONE_KEY).close());
    for (int i = 0; i < 30_000 && daemon.asked(Verb.RELEASE).isEmpty(); i++) {
      Thread.sleep(1);
    }
    assertFalse(daemon.asked(Verb.RELEASE).getFirst().has(RequestDescriptor.FLAG_CONTEXT));
  }

  @Test
  void blockLease_damaged_toldInTheContextOfItsAcquire() throws InterruptedException {
    try (BlockLease lease = client.blocking().newLease()) {
      Status status =
          RequestContext.call(PARENT, () -> lease.acquire(namespace, ONE_KEY, 0, Options.DEFAULT));
      assertEquals(Status.OK, status);
      assertFalse(lease.block().verify());
    }
    checkMadeIn(TRACE, Verb.RELEASE, 1);
  }

  @Test
  void pipeline_damaged_toldInTheContextOfTheOffer() throws InterruptedException {
    try (LeasePipeline pipeline = client.blocking().newPipeline(namespace, 2, Options.DEFAULT)) {
      Status status = RequestContext.call(PARENT, () -> pipeline.offer(ONE_KEY, 0, 0));
      assertEquals(Status.OK, status);
      pipeline.flush();
      assertEquals(1, pipeline.drain((tag, got, block) -> assertFalse(block.verify()), 1));
    }
    checkMadeIn(TRACE, Verb.RELEASE, 1);
  }

  @Test
  void of_whatIsNone_throws() {
    assertThrows(IllegalArgumentException.class, () -> RequestContext.of("00-" + TRACE));
    assertThrows(IllegalArgumentException.class, () -> RequestContext.ofRequestId("chatcmpl-1"));
    assertEquals(
        TRACE, RequestContext.ofRequestId("4BF92F35-77b3-4da6-a3ce-929d0e0e4736").traceId());
  }
}
