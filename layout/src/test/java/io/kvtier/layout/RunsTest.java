package io.kvtier.layout;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Random;
import org.junit.jupiter.api.Test;

/** How runs are joined, and paired with the runs of another device. */
final class RunsTest {
  @Test
  void add_adjacentOnBothSides_isJoined() {
    Runs runs = new Runs();
    runs.add(1000, 0, 10);
    runs.add(1010, 10, 5);
    assertEquals(1, runs.count());
    assertEquals(15, runs.bytes(0));
    runs.add(1015, 20, 5);
    runs.addSeparate(1020, 25, 5);
    assertEquals(3, runs.count());
    assertEquals(25, runs.totalBytes());
    runs.clear();
    assertEquals(0, runs.count());
    assertEquals(0, runs.totalBytes());
  }

  @Test
  void hostSpans_areThePiecesOnTheHost_howeverTheRunsLieOnTheDevice() {
    Runs runs = new Runs();
    assertEquals(0, runs.hostSpans());
    runs.add(1000, 0, 10);
    runs.add(1010, 10, 10);
    runs.add(5000, 20, 10);
    runs.addSeparate(5010, 30, 10);
    assertEquals(1, runs.hostSpans());
    runs.add(5020, 50, 10);
    runs.add(5030, 40, 10);
    assertEquals(3, runs.hostSpans());
    runs.clear();
    assertEquals(0, runs.hostSpans());
  }

  @Test
  void addPairs_cutInOtherWays_coversAllBytes() {
    Random random = new Random(13);
    for (int round = 0; round < 200; round++) {
      int bytes = 1 + random.nextInt(500);
      Runs targets = cut(bytes, random, 1_000_000);
      Runs sources = cut(bytes, random, 2_000_000);
      Runs pairs = new Runs();
      pairs.addPairs(targets, sources);
      assertEquals(bytes, pairs.totalBytes());
      for (int i = 0; i < bytes; i++) {
        assertEquals(place(sources, i), sourceOf(pairs, place(targets, i)));
      }
    }
  }

  /** Runs that are adjacent on the host and separate on the device. */
  private static Runs cut(int bytes, Random random, long device) {
    Runs runs = new Runs();
    for (int at = 0; at < bytes; ) {
      int length = Math.min(bytes - at, 1 + random.nextInt(60));
      runs.add(device + 2L * at, at, length);
      at += length;
    }
    return runs;
  }

  private static long place(Runs runs, int hostByte) {
    for (int i = 0; i < runs.count(); i++) {
      long offset = hostByte - runs.hostAddress(i);
      if (offset >= 0 && offset < runs.bytes(i)) {
        return runs.deviceAddress(i) + offset;
      }
    }
    throw new AssertionError("byte " + hostByte + " is in no run");
  }

  private static long sourceOf(Runs pairs, long target) {
    for (int i = 0; i < pairs.count(); i++) {
      long offset = target - pairs.deviceAddress(i);
      if (offset >= 0 && offset < pairs.bytes(i)) {
        return pairs.hostAddress(i) + offset;
      }
    }
    throw new AssertionError("nothing is copied to " + target);
  }

  @Test
  void addPairs_notTheSameBytes_isRefused() {
    Runs targets = new Runs();
    targets.add(1000, 0, 100);
    Runs shorter = new Runs();
    shorter.add(2000, 0, 99);
    Runs elsewhere = new Runs();
    elsewhere.add(2000, 1, 100);
    assertThrows(IllegalArgumentException.class, () -> new Runs().addPairs(targets, shorter));
    assertThrows(IllegalArgumentException.class, () -> new Runs().addPairs(targets, elsewhere));
  }
}
