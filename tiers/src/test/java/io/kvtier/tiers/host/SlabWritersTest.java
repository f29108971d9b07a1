package io.kvtier.tiers.host;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.kvtier.protocol.linux.ProcessId;
import io.kvtier.tiers.slots.Claim;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What is noted of slabs that clients may write, and when it counts. */
final class SlabWritersTest {
  private static final long KEEPER = ProcessHandle.current().pid();
  private static final int PLACES = 4;
  private static final ProcessId WRITER = new ProcessId(4_000_000, 1L << 40);

  @TempDir private Path folder;

  private static BitSet of(int... slabs) {
    BitSet set = new BitSet();
    for (int slab : slabs) {
      set.set(slab);
    }
    return set;
  }

  private SlabWriters open(int slabs, SlabWriters.Earlier before) throws IOException {
    return new SlabWriters(folder, slabs, PLACES, KEEPER, before);
  }

  private static SlabWriters.Earlier writable(int... slabs) {
    return new SlabWriters.Earlier(of(slabs), of(), List.of());
  }

  private SlabWriters.@Nullable Earlier read(int slabs) {
    return SlabWriters.ofEarlier(folder, slabs, KEEPER);
  }

  @Test
  void noted_isReadAgain_alsoIfNobodyHasClosedIt() throws IOException {
    SlabWriters writers = open(9, writable(2));
    writers.add(8);
    writers.doubt(5);
    writers.write(3, 7, 12L << 32, 1 << 20, WRITER);
    writers.write(1, 2, 4096, 4096, ProcessId.UNKNOWN);
    writers.write(0, 1, 0, 4096, WRITER);
    writers.clear(0);
    SlabWriters.Earlier expected =
        new SlabWriters.Earlier(
            of(2, 8),
            of(5),
            List.of(
                new Claim(2, 4096, 4096, ProcessId.UNKNOWN),
                new Claim(7, 12L << 32, 1 << 20, WRITER)));
    assertEquals(expected, read(9));
    writers.close();
    assertEquals(expected, read(9));
    open(9, expected).close();
    assertEquals(expected, read(9));
    open(9, SlabWriters.Earlier.nothing()).close();
    assertEquals(SlabWriters.Earlier.nothing(), read(9));
  }

  @Test
  void ofAnotherKeeper_orOtherSlabs_countsForNothing() throws IOException {
    assertNull(read(9), "there is none");
    open(9, writable(2)).close();
    assertNull(SlabWriters.ofEarlier(folder, 9, 1), "another process");
    assertNull(SlabWriters.ofEarlier(folder, 9, 0), "no process");
    assertNull(read(8), "other slabs");
    assertEquals(writable(2), read(9));
  }

  @Test
  void handedOver_countsForBothKeepers() throws IOException, InterruptedException {
    SlabWriters.handOver(folder, KEEPER);
    assertNull(read(9), "nothing was noted");
    Process next = new ProcessBuilder("sleep", "60").start();
    try {
      open(9, writable(2)).close();
      SlabWriters.handOver(folder, next.pid());
      assertEquals(writable(2), read(9));
      assertEquals(writable(2), SlabWriters.ofEarlier(folder, 9, next.pid()));
      new SlabWriters(folder, 9, PLACES, next.pid(), writable(3)).close();
      assertNull(read(9));
      assertEquals(writable(3), SlabWriters.ofEarlier(folder, 9, next.pid()));
    } finally {
      next.destroyForcibly().waitFor();
    }
    assertNull(SlabWriters.ofEarlier(folder, 9, next.pid()), "it has gone");
  }

  @Test
  void brokenAnywhereInItsHead_countsForNothing() throws IOException {
    open(2, writable()).close();
    Path file = folder.resolve("writers");
    byte[] right = Files.readAllBytes(file);
    for (int i = 0; i < 56; i++) {
      byte[] wrong = right.clone();
      wrong[i] ^= 1;
      Files.write(file, wrong);
      boolean isNextKeeper = i >= 24 && i < 40;
      assertEquals(isNextKeeper, read(2) != null, "byte " + i);
    }
    Files.write(file, new byte[0]);
    assertNull(read(2), "empty");
    Files.write(file, right);
    assertEquals(writable(), read(2));
  }

  @Test
  void noRightToWrite_isSaid() throws IOException {
    Files.createDirectory(folder.resolve("writers"));
    IOException refused = assertThrows(IOException.class, () -> open(2, writable()));
    assertEquals(
        "'" + folder.resolve("writers") + "' can't be written",
        String.valueOf(refused.getMessage()).split(":", -1)[0]);
  }
}
