package io.kvtier.tiers.ledger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.testing.ChildJvm;
import io.kvtier.tiers.testing.FileDamage;
import io.kvtier.tiers.testing.SmallFileSystem;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class PresenceLedgerTest {
  private static final long AGE_MS = 1_024_000;
  private static final int QUEUE = 1 << 16;

  private static final long ODD = 0x9E37_79B9_7F4A_7C15L;
  private static final long ODD_INVERSE = 0xF1DE_83E1_9937_733DL;

  @TempDir Path directory;

  private final AtomicReference<@Nullable Throwable> defect = new AtomicReference<>();

  /** Read by ledgers' threads: handed over with whatever makes them look. */
  private long nowMs = 1_000_000_000;

  @AfterEach
  void nothingWasThrown() {
    assertEquals(null, defect.get());
  }

  private PresenceLedger make(Path where) throws IOException {
    return new PresenceLedger(where, PresenceLedger.BYTES_MIN, AGE_MS, defect::set, () -> nowMs);
  }

  private PresenceLedger open() throws IOException {
    PresenceLedger ledger = make(directory);
    ledger.start(0, (high, low) -> {});
    return ledger;
  }

  private static boolean holds(PresenceLedger ledger, long number) {
    CompletableFuture<Boolean> answer = new CompletableFuture<>();
    assertTrue(ledger.find(high(number), low(number), answer::complete));
    return answer.orTimeout(90, TimeUnit.SECONDS).join();
  }

  /** As spread out as real keys are. */
  static long high(long number) {
    return new SplittableRandom(number).nextLong();
  }

  static long low(long number) {
    return number * ODD;
  }

  private static void note(PresenceLedger ledger, long from, long to) {
    for (long number = from; number < to; number++) {
      ledger.present(high(number), low(number));
      if (number % (QUEUE / 2) == 0) {
        // All before it is off the queue then.
        holds(ledger, number);
      }
    }
  }

  @Test
  void find_whatWasNoted_isThereUntilForgotten() throws IOException {
    try (PresenceLedger ledger = open()) {
      assertFalse(holds(ledger, 1));
      note(ledger, 1, 4);
      ledger.forget(high(2), low(2));
      ledger.forget(high(9), low(9));
      assertTrue(holds(ledger, 1));
      assertFalse(holds(ledger, 2));
      assertTrue(holds(ledger, 3));
      CompletableFuture<Boolean> other = new CompletableFuture<>();
      assertTrue(ledger.find(high(1), low(2), other::complete));
      assertFalse(other.join());
    }
  }

  @Test
  void find_afterARestart_isStillKnown() throws IOException {
    for (int round = 0; round < 3; round++) {
      try (PresenceLedger ledger = open()) {
        assertEquals("", ledger.openingReport());
        for (long number = 0; number < 10_000L * round; number += 97) {
          assertEquals(number % 10_000 != 5000, holds(ledger, number), "key " + number);
        }
        note(ledger, 10_000L * round, 10_000L * (round + 1));
        long gone = 10_000L * round + 5000;
        ledger.forget(high(gone), low(gone));
        assertEquals(0, ledger.lost());
      }
    }
    try (PresenceLedger ledger = open()) {
      assertFalse(holds(ledger, 5000));
      assertFalse(holds(ledger, 25_000));
    }
  }

  @Test
  void find_notedTooLongAgo_isNotBelieved() throws IOException {
    try (PresenceLedger ledger = open()) {
      note(ledger, 1, 2);
    }
    try (PresenceLedger ledger = open()) {
      nowMs += AGE_MS;
      assertTrue(holds(ledger, 1));
      nowMs++;
      assertFalse(holds(ledger, 1));
      // Noted by a clock that was ahead.
      nowMs -= AGE_MS + 2;
      assertFalse(holds(ledger, 1));
      note(ledger, 1, 2);
      assertTrue(holds(ledger, 1));
    }
  }

  @Test
  void find_notedTooLongAgoAndNotWrittenYet_isNotBelieved() throws IOException {
    try (PresenceLedger ledger = make(directory)) {
      note(ledger, 1, 2);
      CompletableFuture<Boolean> answer = new CompletableFuture<>();
      assertTrue(ledger.find(high(1), low(1), answer::complete));
      nowMs += AGE_MS + 1;
      ledger.start(0, (high, low) -> {});
      assertFalse(answer.orTimeout(90, TimeUnit.SECONDS).join());
    }
  }

  private Set<Long> newest(long max) throws IOException {
    Set<Long> told = new ConcurrentSkipListSet<>();
    CountDownLatch ended = new CountDownLatch(1);
    try (PresenceLedger ledger = make(directory)) {
      ledger.start(
          max,
          (high, low) -> {
            long number = low * ODD_INVERSE;
            assertEquals(high(number), high);
            assertTrue(told.add(number));
          });
      // Answered when all were told of: there are few.
      assertTrue(ledger.find(0, 0, found -> ended.countDown()));
      assertTrue(ended.await(90, TimeUnit.SECONDS));
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
    return new TreeSet<>(told);
  }

  private static Set<Long> numbers(long from, long to) {
    return LongStream.range(from, to).boxed().collect(Collectors.toCollection(TreeSet::new));
  }

  @Test
  void start_moreThanIsWanted_tellsOfTheNewest() throws IOException {
    try (PresenceLedger ledger = open()) {
      for (int number = 0; number < 1000; number++) {
        nowMs += AGE_MS / 1000;
        // In an order that is not that of the keys.
        long key = number * 371L % 1000;
        ledger.present(high(key), low(key));
      }
    }
    assertEquals(numbers(0, 1000).size(), newest(2000).size());
    Set<Long> expected = new TreeSet<>();
    for (int number = 900; number < 1000; number++) {
      expected.add(number * 371L % 1000);
    }
    assertEquals(expected, newest(100));
    assertEquals(Set.of(), newest(0));
    // Half of them are too old by now.
    nowMs += AGE_MS / 2;
    assertEquals(501, newest(2000).size());
    nowMs += AGE_MS;
    assertEquals(Set.of(), newest(2000));
  }

  @Test
  void start_allAreOfOneTime_tellsOfNoMoreThanIsWanted() throws IOException {
    try (PresenceLedger ledger = open()) {
      note(ledger, 0, 1000);
    }
    assertEquals(100, newest(100).size());
  }

  @Test
  void churn_tenTimesTheCap_keepsTheCapAndTheNewest() throws IOException {
    long last = 0;
    try (PresenceLedger ledger = open()) {
      long mostBytes = 0;
      while (last < 3_500_000) {
        note(ledger, last, last + 50_000);
        last += 50_000;
        mostBytes = Math.max(mostBytes, ledger.bytes());
      }
      System.out.printf(
          "%d keys were noted, at most %.1f MiB of files%n", last, mostBytes / 1048576.0);
      assertTrue(mostBytes <= PresenceLedger.BYTES_MIN, "took " + mostBytes + " bytes");
      assertEquals(0, ledger.lost());
    }
    try (PresenceLedger ledger = open()) {
      assertEquals("", ledger.openingReport());
      int held = 0;
      for (long number = 0; number < last; number += 1000) {
        held += holds(ledger, number) ? 1 : 0;
      }
      assertTrue(held > 300, held + "000 keys are held");
      assertTrue(held < 700, held + "000 keys are held");
      for (long number = last - 150_000; number < last; number += 1000) {
        assertTrue(holds(ledger, number), "one of the newest, " + number);
      }
    }
  }

  @Test
  void open_manyTimes_makesNoPileOfFiles() throws IOException {
    for (int i = 0; i < 60; i++) {
      try (PresenceLedger ledger = open()) {
        note(ledger, i, i + 1);
      }
    }
    try (PresenceLedger ledger = open()) {
      for (int i = 0; i < 60; i++) {
        assertTrue(holds(ledger, i));
      }
      long tables = names().filter(name -> name.endsWith(".sst")).count();
      assertTrue(tables < 20, tables + " files");
    }
  }

  @Test
  void kill_inTheMiddleOfNotes_opensAgainAndLosesTheTailAtMost() throws Exception {
    long next = 1;
    for (int run = 0; run < 3; run++) {
      long last =
          ChildJvm.killAfterLines(
              PresenceVictim.class, 20 + 50 * run, directory.toString(), String.valueOf(next));
      nowMs = System.currentTimeMillis();
      try (PresenceLedger ledger = open()) {
        assertEquals("", ledger.openingReport());
        // A batch may have been on its way.
        long sure = last - 4096 - PresenceVictim.STEP;
        for (long number = 1; number <= sure; number += 13) {
          assertTrue(holds(ledger, number), number + " of " + last);
        }
        next = Math.max(1, sure);
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"flip .sst", "cut .sst", "delete .sst", "flip MANIFEST", "flip CURRENT"})
  void open_damaged_isMovedAsideOnceAndSaid(String damage) throws IOException {
    try (PresenceLedger ledger = open()) {
      note(ledger, 0, 5000);
    }
    // This opening writes a table file.
    open().close();
    damage(damage.split(" ", 2)[0], damage.split(" ", 2)[1]);
    try (PresenceLedger ledger = open()) {
      assertTrue(ledger.openingReport().contains("was damaged"), ledger.openingReport());
      assertTrue(ledger.openingReport().contains("presence.damaged-"), ledger.openingReport());
      assertFalse(holds(ledger, 1));
      note(ledger, 1, 2);
      assertTrue(holds(ledger, 1));
    }
    try (PresenceLedger ledger = open()) {
      assertEquals("", ledger.openingReport());
      assertTrue(holds(ledger, 1));
    }
  }

  private Stream<String> names() throws IOException {
    try (Stream<Path> files = Files.list(directory.resolve("presence"))) {
      return files.map(file -> String.valueOf(file.getFileName())).toList().stream();
    }
  }

  private void damage(String how, String which) throws IOException {
    String name = names().filter(file -> file.contains(which)).findFirst().orElseThrow();
    Path file = directory.resolve("presence").resolve(name);
    FileDamage.damage(how, file);
  }

  @Test
  void note_diskFull_isLostAndCountedAndLaterOnesAreNot() throws Exception {
    try (SmallFileSystem disk = SmallFileSystem.mount(directory, 24 << 20);
        PresenceLedger ledger = make(disk.path().resolve("tier"))) {
      ledger.start(0, (high, low) -> {});
      note(ledger, 1, 1000);
      disk.fill();
      long number = 1000;
      while (ledger.lost() == 0) {
        assertTrue(number < 10_000_000, "nothing was lost");
        note(ledger, number, number + 1000);
        number += 1000;
      }
      // Questions are answered all the same.
      assertFalse(holds(ledger, -5));
      disk.free();
      boolean works = false;
      for (int i = 0; i < 100 && !works; i++) {
        note(ledger, 1, 2);
        TimeUnit.MILLISECONDS.sleep(100);
        works = holds(ledger, 1);
      }
      assertTrue(works);
      long lost = ledger.lost();
      note(ledger, 1, 1000);
      assertTrue(holds(ledger, 999));
      assertEquals(lost, ledger.lost());
    }
  }

  /** Nobody takes notes off the queue: whoever makes them goes on all the same. */
  @Test
  void note_queueFull_isLostAndCounted() throws IOException {
    try (PresenceLedger ledger = make(directory)) {
      for (long number = 0; number < QUEUE + 100; number++) {
        ledger.present(high(number), low(number));
      }
      assertEquals(100, ledger.lost());
      assertFalse(ledger.find(1, -1, found -> {}));
    }
  }

  @Test
  void open_twice_isRefusedUntilClosed() throws IOException {
    try (PresenceLedger first = open()) {
      IOException error = assertThrows(IOException.class, this::open);
      assertTrue(String.valueOf(error.getMessage()).contains(directory.toString()));
      assertFalse(holds(first, 1));
    }
    try (PresenceLedger again = open()) {
      assertFalse(holds(again, 1));
    }
  }

  @Test
  void open_tooSmall_isRefused() {
    assertThrows(
        IllegalArgumentException.class,
        () -> new PresenceLedger(directory, PresenceLedger.BYTES_MIN - 1, 1, defect::set));
    assertFalse(Files.exists(directory.resolve("presence")));
  }
}
