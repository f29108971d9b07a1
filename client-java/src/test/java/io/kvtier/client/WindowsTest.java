package io.kvtier.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.client.internal.session.FakeDaemon;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Gets and puts of several windows: where a run ends, what is cancelled, and whose deadline counts.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS)
final class WindowsTest {
  private static final int BLOCK_BYTES = FakeDaemon.SLAB_BYTES;
  private static final int WINDOW_BLOCKS = 4;
  private static final int WINDOWS = 12;
  private static final int BLOCKS = WINDOWS * WINDOW_BLOCKS;
  private static final int PUT_WINDOW_BLOCKS = 8;
  private static final int HOLE = WINDOW_BLOCKS + 2;
  private static final Options RUN = Options.DEFAULT.withLeadingRun(true);
  private static final Options BRIEF = Options.DEFAULT.withTimeout(Duration.ofSeconds(1));

  /** Less than the client's own deadline: what ends sooner has not waited for that. */
  private static final long HANG_NS = 100_000_000_000L;

  @TempDir private Path folder;
  private FakeDaemon daemon;
  private KvtierClient client;
  private Namespace namespace;
  private final AtomicInteger windows = new AtomicInteger();

  @BeforeEach
  void open() throws IOException {
    daemon = new FakeDaemon(folder.resolve("fake.sock"));
    client =
        KvtierClient.builder()
            .socket(folder.resolve("fake.sock"))
            .timeout(Duration.ofSeconds(110))
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
      keys[i] = new byte[] {(byte) (i >> 8), (byte) i};
    }
    return Keys.of(keys);
  }

  private static List<MemorySegment> memory(int count) {
    return Collections.nCopies(count, MemorySegment.ofArray(new byte[BLOCK_BYTES]));
  }

  private static List<FakeDaemon.Granted> granted(int window, int count) {
    List<FakeDaemon.Granted> blocks = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      int block = window * WINDOW_BLOCKS + i;
      blocks.add(
          block == HOLE
              ? FakeDaemon.Granted.MISS
              : new FakeDaemon.Granted(Status.OK, block + 1, 0, BLOCK_BYTES, 0, 0));
    }
    return blocks;
  }

  private static void checkRun(BatchResult result) {
    assertEquals(Status.OK, result.status());
    assertEquals(HOLE, result.blocks().run());
    // The last block of the hole's own window is what the daemon said.
    assertEquals(Status.OK, result.blocks().status(HOLE + 1));
    assertEquals(BLOCKS - HOLE - 1, result.blocks().count(Status.MISS));
  }

  /** All that was granted is given back. */
  private void checkReleased(int leases) throws InterruptedException {
    Set<Long> ids = new HashSet<>();
    for (int i = 0; i < 30_000 && ids.size() < leases; i++) {
      Thread.sleep(1);
      daemon.asked(Verb.RELEASE).forEach(release -> ids.addAll(release.ids()));
    }
    assertEquals(leases, ids.size());
  }

  @Test
  void get_leadingRun_stopsAtTheHole() throws InterruptedException {
    AtomicInteger leases = new AtomicInteger();
    daemon.script =
        (link, verb, id, count) -> {
          if (verb == Verb.ACQUIRE) {
            List<FakeDaemon.Granted> blocks = granted(windows.getAndIncrement(), count);
            blocks.forEach(one -> leases.addAndGet(one.status() == Status.OK ? 1 : 0));
            link.grant(verb, id, blocks);
          }
          return verb == Verb.ACQUIRE;
        };
    checkRun(client.blocking().get(namespace, keys(BLOCKS), memory(BLOCKS), RUN));
    assertTrue(windows.get() <= 6, () -> windows + " windows were asked for");
    checkReleased(leases.get());
  }

  @Test
  void get_leadingRun_cancelsWhatIsInFlight() throws InterruptedException {
    checkCancelled(false);
  }

  @Test
  void getAsync_leadingRun_cancelsWhatIsInFlight() throws InterruptedException {
    checkCancelled(true);
  }

  /** A daemon that answers what lies beyond the hole only when it is cancelled. */
  private void checkCancelled(boolean async) throws InterruptedException {
    Queue<Long> held = new ConcurrentLinkedQueue<>();
    daemon.script =
        (link, verb, id, count) -> {
          if (verb == Verb.ACQUIRE) {
            int window = windows.getAndIncrement();
            if (window > 1) {
              held.add(id);
            } else {
              link.grant(verb, id, granted(window, count));
            }
          }
          return verb == Verb.ACQUIRE;
        };
    daemon.idle =
        link -> {
          if (!held.isEmpty() && daemon.asked(Verb.CANCEL).size() >= windows.get() - 2) {
            link.complete(Verb.ACQUIRE, held.remove(), Status.CANCELLED, 0);
          }
        };
    long start = System.nanoTime();
    checkRun(
        async
            ? namespace.get(keys(BLOCKS), memory(BLOCKS), RUN).join()
            : client.blocking().get(namespace, keys(BLOCKS), memory(BLOCKS), RUN));
    assertTrue(System.nanoTime() - start < HANG_NS);
    assertTrue(windows.get() < WINDOWS);
    checkReleased(2 * WINDOW_BLOCKS - 1);
  }

  @Test
  void getAsync_windowsBeyondTheHoleComeFirst_areMissAllTheSame() throws InterruptedException {
    Queue<Long> held = new ConcurrentLinkedQueue<>();
    daemon.script =
        (link, verb, id, count) -> {
          if (verb == Verb.ACQUIRE) {
            int window = windows.getAndIncrement();
            if (window == 1) {
              held.add(id);
            } else {
              link.grant(verb, id, granted(window, count));
            }
          }
          return verb == Verb.ACQUIRE;
        };
    daemon.idle =
        link -> {
          if (!held.isEmpty() && daemon.asked(Verb.RELEASE).size() >= 3) {
            link.grant(Verb.ACQUIRE, held.remove(), granted(1, WINDOW_BLOCKS));
          }
        };
    checkRun(namespace.get(keys(BLOCKS), memory(BLOCKS), RUN).join());
  }

  @Test
  void get_withoutLeadingRun_goesOn() {
    daemon.script =
        (link, verb, id, count) -> {
          if (verb == Verb.ACQUIRE) {
            link.grant(verb, id, granted(windows.getAndIncrement(), count));
          }
          return verb == Verb.ACQUIRE;
        };
    for (boolean async : new boolean[] {false, true}) {
      windows.set(0);
      BatchResult result =
          async
              ? namespace.get(keys(BLOCKS), memory(BLOCKS), Options.DEFAULT).join()
              : client.blocking().get(namespace, keys(BLOCKS), memory(BLOCKS));
      assertEquals(BLOCKS - 1, result.blocks().count(Status.OK));
      assertEquals(WINDOWS, windows.get());
    }
  }

  @Test
  void acquire_leadingRunOverSeveralRequests_isMissAfterTheHole() throws InterruptedException {
    int blocks = 2 * Protocol.KEYS_MAX;
    daemon.script =
        (link, verb, id, count) -> {
          if (verb == Verb.ACQUIRE) {
            link.grant(verb, id, granted(windows.getAndIncrement(), count));
          }
          return verb == Verb.ACQUIRE;
        };
    try (Leases leases = client.blocking().acquire(namespace, keys(blocks), RUN)) {
      assertEquals(Protocol.KEYS_MAX - 1, leases.granted());
      assertEquals(Protocol.KEYS_MAX + 1, leases.blocks().count(Status.MISS));
    }
  }

  /** A daemon that reserves and leases, and then says nothing more. */
  private void hangAfterwards() {
    daemon.script =
        (link, verb, id, count) -> {
          if (verb == Verb.RESERVE || verb == Verb.ACQUIRE) {
            link.grant(verb, id, granted(0, count));
          }
          return verb != Verb.REGISTER;
        };
  }

  private static void checkBrief(Status status, long startNs) {
    assertEquals(Status.DEADLINE, status);
    assertTrue(System.nanoTime() - startNs < HANG_NS);
  }

  @Test
  void put_daemonHangsAtTheCommit_endsAtTheCallersDeadline() {
    hangAfterwards();
    long start = System.nanoTime();
    BatchResult result = client.blocking().put(namespace, keys(2), memory(2), BRIEF);
    checkBrief(result.blocks().status(0), start);
    assertEquals(
        daemon.asked(Verb.RESERVE).getFirst().deadlineNs(),
        daemon.asked(Verb.COMMIT).getFirst().deadlineNs());
  }

  /** Memory that only this thread may read fails in the window that is copied first. */
  @ParameterizedTest
  @ValueSource(ints = {1, PUT_WINDOW_BLOCKS + 1})
  void putAsync_copyFails_failsAtOnceAndGivesAllBack(int blocks) {
    AtomicInteger reserved = new AtomicInteger();
    daemon.script =
        (link, verb, id, count) -> {
          if (verb == Verb.RESERVE) {
            List<FakeDaemon.Granted> slots = granted(windows.getAndIncrement(), count);
            slots.forEach(one -> reserved.addAndGet(one.status() == Status.OK ? 1 : 0));
            link.grant(verb, id, slots);
          } else if (verb == Verb.ACQUIRE) {
            link.grant(verb, id, granted(0, count));
          }
          return verb == Verb.RESERVE || verb == Verb.ACQUIRE;
        };
    try (Arena arena = Arena.ofConfined()) {
      CompletableFuture<BatchResult> put =
          namespace.put(
              keys(blocks),
              Collections.nCopies(blocks, arena.allocate(BLOCK_BYTES)),
              Options.DEFAULT);
      ExecutionException failed =
          assertThrows(ExecutionException.class, () -> put.get(50, TimeUnit.SECONDS));
      assertInstanceOf(WrongThreadException.class, failed.getCause());
    }
    // Silent requests are read in order: what was given back came before this.
    assertEquals(Status.OK, client.blocking().ping().status());
    int aborted = daemon.asked(Verb.ABORT).stream().mapToInt(abort -> abort.ids().size()).sum();
    assertEquals(reserved.get(), aborted);
    windows.set(0);
    for (int i = 0; i < 3; i++) {
      assertEquals(
          2, client.blocking().put(namespace, keys(2), memory(2)).blocks().count(Status.OK));
      assertEquals(
          2, client.blocking().get(namespace, keys(2), memory(2)).blocks().count(Status.OK));
    }
  }

  @Test
  void commitAndRelease_daemonHangs_endAtTheCallersDeadline() {
    hangAfterwards();
    Blocking blocking =
        new Blocking(
            client.blocking().reserve(namespace, keys(2), BRIEF),
            client.blocking().reserve(namespace, keys(2)),
            client.blocking().acquire(namespace, keys(2), BRIEF),
            client.blocking().acquire(namespace, keys(2)));
    long start = System.nanoTime();
    checkBrief(blocking.brief.commitAndWait().status(), start);
    checkBrief(blocking.lasting.commit(BRIEF).join().status(), start);
    checkBrief(blocking.briefLeases.release().status(), start);
    checkBrief(blocking.lastingLeases.release(BRIEF).status(), start);
  }

  private record Blocking(
      Reservations brief, Reservations lasting, Leases briefLeases, Leases lastingLeases) {}
}
