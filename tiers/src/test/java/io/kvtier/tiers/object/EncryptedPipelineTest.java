package io.kvtier.tiers.object;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.object.PresenceCache.Presence;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.LoggerFactory;

/** Nodes with several keys, one after the other, over one folder. */
final class EncryptedPipelineTest {
  private static final int BLOCK_BYTES = 100_000;

  @TempDir Path folder;

  private final Arena arena = Arena.ofShared();
  private final ObjectTransfers transfers = new ObjectTransfers(arena, BLOCK_BYTES);
  private final Semaphore bell = new Semaphore(0);
  private final AtomicReference<@Nullable Throwable> defect = new AtomicReference<>();
  private final ListAppender<ILoggingEvent> said = new ListAppender<>();
  private FolderObjectStore store;
  private PresenceCache presence;

  @BeforeEach
  void open() throws IOException {
    store = new FolderObjectStore(folder, 2);
    presence =
        new PresenceCache(
            store, new PresenceCache.Options(1 << 20, 1L << 40, 1L << 40, 1, 1L << 40), null);
    said.start();
    logger().addAppender(said);
  }

  @AfterEach
  void close() {
    logger().detachAppender(said);
    store.close();
    arena.close();
    assertEquals(null, defect.get());
  }

  private static Logger logger() {
    return (Logger) LoggerFactory.getLogger(OthersObjects.class);
  }

  private ObjectPipeline node(@Nullable ObjectCipher cipher) {
    return node(cipher, "none");
  }

  private ObjectPipeline node(@Nullable ObjectCipher cipher, String codec) {
    ObjectPipelineOptions usual = ObjectPipelineOptions.defaults();
    return new ObjectPipeline(
        "object-test",
        store,
        new ObjectPipelineOptions(
            usual.capacity(),
            codec,
            new ObjectPipelineOptions.Times(
                TimeUnit.MINUTES.toNanos(1), TimeUnit.MINUTES.toNanos(1), 0),
            usual.calls(),
            usual.bandwidth(),
            usual.breaker(),
            new ObjectPipelineOptions.Retry(2, 1_000_000, 1_000_000, 0.1, 10)),
        cipher,
        presence,
        bell::release,
        thrown -> {
          defect.set(thrown);
          bell.release();
        });
  }

  private Transfer done(ObjectPipeline node, Transfer transfer) throws InterruptedException {
    assertTrue(node.offer(transfer));
    List<Transfer> finished = new ArrayList<>();
    while (finished.isEmpty()) {
      assertTrue(bell.tryAcquire(90, TimeUnit.SECONDS), "hangs");
      assertEquals(null, defect.get());
      node.collect(finished::add);
    }
    assertEquals(List.of(transfer), finished);
    return transfer;
  }

  private void assertStores(ObjectPipeline node, int number) throws InterruptedException {
    assertEquals(Status.OK, done(node, transfers.store(number)).status);
  }

  private void assertLoads(ObjectPipeline node, int number) throws InterruptedException {
    Transfer loaded = done(node, transfers.load(number));
    assertEquals(Status.OK, loaded.status);
    assertTrue(transfers.holds(loaded, number));
    assertEquals(number, loaded.generation);
  }

  private Path object() throws IOException {
    try (Stream<Path> files = Files.walk(folder)) {
      List<Path> objects = files.filter(Files::isRegularFile).toList();
      assertEquals(1, objects.size(), objects::toString);
      return objects.getFirst();
    }
  }

  private Presence presence(int number) {
    return presence.lookup(ObjectKey.of(transfers.load(number)));
  }

  private List<String> lines() {
    return said.list.stream().map(ILoggingEvent::getFormattedMessage).toList();
  }

  @Test
  void load_byTheSameKey_bringsTheBlock() throws Exception {
    for (String codec : List.of("none", "zstd", "planes")) {
      try (ObjectPipeline node = node(TestKeys.cipher(1), codec)) {
        for (int i = 0; i < 20; i++) {
          assertStores(node, i);
        }
        for (int i = 0; i < 20; i++) {
          assertLoads(node, i);
        }
      }
    }
  }

  @Test
  void load_byAnotherKey_isAMissThatIsCountedAndSaidOnce() throws Exception {
    try (ObjectPipeline node = node(TestKeys.cipher(1))) {
      assertStores(node, 7);
    }
    byte[] before = Files.readAllBytes(object());
    try (ObjectPipeline node = node(TestKeys.cipher(2, 3))) {
      for (int i = 0; i < 3; i++) {
        assertEquals(Status.MISS, done(node, transfers.load(7)).status);
        assertEquals(Presence.ABSENT, presence(7));
      }
      assertEquals(3, node.count(ObjectCounter.OTHER_KEY));
      assertEquals(3, node.count(ObjectCounter.CALLS));
      assertEquals(0, node.count(ObjectCounter.CORRUPT));
      assertEquals(0, node.count(ObjectCounter.RETRIES));
      assertEquals(1, lines().size(), lines()::toString);
      for (int key = 1; key <= 3; key++) {
        assertTrue(lines().getFirst().contains(TestKeys.key(key).toString()), lines()::toString);
      }
      // The object is another node's, so this node's store is not acknowledged.
      assertEquals(Status.DENIED, done(node, transfers.store(7)).status);
      assertEquals(1, node.count(ObjectCounter.LEFT_TO_OTHERS));
      assertEquals(Presence.ABSENT, presence(7));
    }
    assertEquals(-1, java.util.Arrays.mismatch(before, Files.readAllBytes(object())));
    try (ObjectPipeline node = node(TestKeys.cipher(1))) {
      assertLoads(node, 7);
    }
  }

  @Test
  void load_encryptedWithoutAnyKey_isAMiss() throws Exception {
    try (ObjectPipeline node = node(TestKeys.cipher(1))) {
      assertStores(node, 7);
    }
    try (ObjectPipeline node = node(null)) {
      assertEquals(Status.MISS, done(node, transfers.load(7)).status);
      assertEquals(1, node.count(ObjectCounter.OTHER_KEY));
      assertTrue(lines().getFirst().contains("this node has no key"), lines()::toString);
    }
  }

  @Test
  void load_afterTheKeyWasChanged_readsOldAndNew() throws Exception {
    try (ObjectPipeline node = node(TestKeys.cipher(1))) {
      assertStores(node, 1);
    }
    try (ObjectPipeline node = node(TestKeys.cipher(2, 1))) {
      assertLoads(node, 1);
      assertStores(node, 2);
    }
    try (ObjectPipeline node = node(TestKeys.cipher(2))) {
      assertLoads(node, 2);
      assertEquals(Status.MISS, done(node, transfers.load(1)).status);
    }
  }

  @Test
  void load_notEncrypted_isAMissUnlessAllowed() throws Exception {
    try (ObjectPipeline node = node(null)) {
      assertStores(node, 7);
    }
    try (ObjectPipeline node = node(TestKeys.cipher(1))) {
      assertEquals(Status.MISS, done(node, transfers.load(7)).status);
      assertEquals(1, node.count(ObjectCounter.NOT_ENCRYPTED));
      assertEquals(0, node.count(ObjectCounter.OTHER_KEY));
      assertTrue(lines().getFirst().contains("is not encrypted"), lines()::toString);
      assertEquals(Status.DENIED, done(node, transfers.store(7)).status);
    }
    try (ObjectPipeline node = node(new ObjectCipher(TestKeys.keys(1), true))) {
      assertLoads(node, 7);
    }
  }

  @Test
  void store_othersObjectIsGone_isStored() throws Exception {
    try (ObjectPipeline node = node(TestKeys.cipher(1))) {
      assertStores(node, 7);
    }
    try (ObjectPipeline node = node(TestKeys.cipher(2))) {
      assertEquals(Status.MISS, done(node, transfers.load(7)).status);
      Files.delete(object());
      assertStores(node, 7);
      assertLoads(node, 7);
      // From now on it is its own.
      assertStores(node, 7);
      assertEquals(1, node.count(ObjectCounter.PRESENT));
    }
  }

  @Test
  void load_damaged_isCorruptAndReplacedByTheNextStore() throws Exception {
    try (ObjectPipeline node = node(TestKeys.cipher(1))) {
      assertStores(node, 7);
      Path object = object();
      byte[] bytes = Files.readAllBytes(object);
      bytes[5000] ^= 1;
      Files.write(object, bytes);
      assertEquals(Status.CORRUPT, done(node, transfers.load(7)).status);
      assertFalse(node.count(ObjectCounter.CORRUPT) == 0);
      assertStores(node, 7);
      assertLoads(node, 7);
    }
  }
}
