package io.kvtier.client.internal.local;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.client.BatchResult;
import io.kvtier.client.BlockLease;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.LeasePipeline;
import io.kvtier.client.Leases;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.client.internal.session.FakeDaemon;
import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** How leases are given back: what is said of damage, and when the bell is rung. */
@Timeout(value = 60, unit = TimeUnit.SECONDS)
final class ReleaseTest {
  private static final int BLOCK_BYTES = 4096;
  private static final long SOUND = 70;
  private static final long DAMAGED = 71;
  private static final Keys KEYS = Keys.of(new byte[] {1}, new byte[] {2});

  @TempDir private Path folder;
  private FakeDaemon daemon;
  private KvtierClient client;
  private Namespace namespace;

  /** Of each batch the first block is sound, the second damaged. */
  @BeforeEach
  void open() throws IOException {
    daemon = new FakeDaemon(folder.resolve("fake.sock"));
    client =
        KvtierClient.builder()
            .socket(folder.resolve("fake.sock"))
            .timeout(Duration.ofSeconds(50))
            .build();
    namespace = client.namespace("n", BLOCK_BYTES, Map.of());
    int right = Copies.checksum(daemon.slab.asSlice(0, BLOCK_BYTES));
    daemon.script =
        (link, verb, id, count) -> {
          if (verb == Verb.ACQUIRE) {
            List<FakeDaemon.Granted> granted = new ArrayList<>();
            for (int i = 0; i < count; i++) {
              granted.add(
                  new FakeDaemon.Granted(
                      Status.OK,
                      count == 1 ? DAMAGED : SOUND + i,
                      (long) i * BLOCK_BYTES,
                      BLOCK_BYTES,
                      count > 1 && i == 0 ? right : right + 1,
                      CompletionDescriptor.BLOCK_FLAG_VERIFY));
            }
            link.grant(verb, id, granted);
          }
          return verb == Verb.ACQUIRE;
        };
  }

  @AfterEach
  void close() {
    client.close();
    daemon.close();
  }

  private List<FakeDaemon.Asked> releases(int count) throws InterruptedException {
    for (int i = 0; i < 30_000 && daemon.asked(Verb.RELEASE).size() < count; i++) {
      Thread.sleep(1);
    }
    return daemon.asked(Verb.RELEASE);
  }

  /** One release of the sound block, one of the damaged one, which says so. */
  private void checkReleases(boolean silent) throws InterruptedException {
    List<FakeDaemon.Asked> releases = releases(2);
    assertEquals(2, releases.size());
    for (FakeDaemon.Asked release : releases) {
      boolean damaged = release.has(RequestDescriptor.FLAG_CORRUPT);
      assertEquals(List.of(damaged ? DAMAGED : SOUND), release.ids());
      assertEquals(silent, release.has(RequestDescriptor.FLAG_SILENT));
    }
    assertTrue(
        releases.get(0).has(RequestDescriptor.FLAG_CORRUPT)
            != releases.get(1).has(RequestDescriptor.FLAG_CORRUPT));
  }

  private static List<MemorySegment> destinations() {
    return List.of(
        MemorySegment.ofArray(new byte[BLOCK_BYTES]), MemorySegment.ofArray(new byte[BLOCK_BYTES]));
  }

  @Test
  void get_damagedBlock_isCorruptAndTheReleaseSaysSo() throws InterruptedException {
    BatchResult result = client.blocking().get(namespace, KEYS, destinations());
    assertEquals(List.of(Status.OK, Status.CORRUPT), result.blocks().statuses());
    checkReleases(true);
  }

  @Test
  void getAsync_damagedBlock_isCorruptAndTheReleaseSaysSo() throws InterruptedException {
    BatchResult result = namespace.get(KEYS, destinations(), Options.DEFAULT).join();
    assertEquals(List.of(Status.OK, Status.CORRUPT), result.blocks().statuses());
    checkReleases(true);
  }

  @Test
  void leases_verifyFails_closeSaysSo() throws InterruptedException {
    try (Leases leases = client.blocking().acquire(namespace, KEYS)) {
      assertTrue(leases.verify(0));
      assertFalse(leases.verify());
    }
    checkReleases(true);
  }

  @Test
  void leases_verifyFails_releaseSaysSoAndAnswersForBoth() throws InterruptedException {
    try (Leases leases = client.blocking().acquire(namespace, KEYS)) {
      assertFalse(leases.verify(1));
      BatchResult released = leases.release();
      assertEquals(Status.OK, released.status());
      assertEquals(List.of(Status.OK, Status.OK), released.blocks().statuses());
    }
    checkReleases(false);
  }

  @Test
  void leases_notVerified_sayNothing() throws InterruptedException {
    client.blocking().acquire(namespace, KEYS).close();
    List<FakeDaemon.Asked> releases = releases(1);
    assertEquals(1, releases.size());
    assertEquals(RequestDescriptor.FLAG_SILENT, releases.getFirst().flags());
    assertEquals(List.of(SOUND, DAMAGED), releases.getFirst().ids());
  }

  @Test
  void blockLease_verifyFails_releaseSaysSo() throws InterruptedException {
    try (BlockLease lease = client.blocking().newLease()) {
      assertEquals(Status.OK, lease.acquire(namespace, KEYS, 1, Options.DEFAULT));
      assertFalse(lease.block().verify());
      assertTrue(lease.release());
      assertTrue(releases(1).getLast().has(RequestDescriptor.FLAG_CORRUPT));
      assertEquals(Status.OK, lease.acquire(namespace, KEYS, 1, Options.DEFAULT));
    }
    assertFalse(releases(2).getLast().has(RequestDescriptor.FLAG_CORRUPT));
  }

  @Test
  void pipeline_verifyFails_releaseSaysSo() throws InterruptedException {
    try (LeasePipeline pipeline = client.blocking().newPipeline(namespace, 4, Options.DEFAULT)) {
      for (int tag = 0; tag < 3; tag++) {
        assertEquals(Status.OK, pipeline.offer(KEYS, 1, tag));
      }
      pipeline.flush();
      int drained =
          pipeline.drain((tag, status, block) -> assertFalse(tag == 1 && block.verify()), 3);
      assertEquals(3, drained);
    }
    int damaged = 0;
    int all = 0;
    // How many leases one release names depends on when they are released.
    for (int i = 0; i < 30_000 && all < 3; i++) {
      Thread.sleep(1);
      all = 0;
      damaged = 0;
      for (FakeDaemon.Asked release : daemon.asked(Verb.RELEASE)) {
        all += release.count();
        damaged += release.has(RequestDescriptor.FLAG_CORRUPT) ? release.count() : 0;
      }
    }
    assertEquals(3, all);
    assertEquals(1, damaged);
  }

  @Test
  void bell_soundReleaseIsSilent_damageRings() throws IOException, InterruptedException {
    Leases sound = client.blocking().acquire(namespace, KEYS);
    Leases damaged = client.blocking().acquire(namespace, KEYS);
    BlockLease one = client.blocking().newLease();
    assertEquals(Status.OK, one.acquire(namespace, KEYS, 0, Options.DEFAULT));
    daemon.asleep = true;
    Thread.sleep(20);
    long before = daemon.bells();
    sound.close();
    one.close();
    assertEquals(2, releases(2).size());
    assertEquals(before, daemon.bells());
    assertFalse(damaged.verify());
    damaged.close();
    assertEquals(before + 1, daemon.bells());
  }

  @Test
  void bell_releaseBetweenOfferAndFlush_ringsForTheOffer()
      throws IOException, InterruptedException {
    Leases leases = client.blocking().acquire(namespace, KEYS);
    try (LeasePipeline pipeline = client.blocking().newPipeline(namespace, 4, Options.DEFAULT)) {
      daemon.asleep = true;
      Thread.sleep(20);
      long before = daemon.bells();
      assertEquals(Status.OK, pipeline.offer(KEYS, 0, 0));
      leases.close();
      pipeline.flush();
      assertEquals(before + 1, daemon.bells());
    }
  }
}
