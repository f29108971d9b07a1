package io.kvtier.tiers.host;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What is noted of slabs that clients may write, and when it counts. */
final class SlabWritersTest {
  private static final long KEEPER = ProcessHandle.current().pid();

  @TempDir private Path folder;

  private static BitSet of(int... slabs) {
    BitSet set = new BitSet();
    for (int slab : slabs) {
      set.set(slab);
    }
    return set;
  }

  @Test
  void noted_isReadAgain_alsoIfNobodyHasClosedIt() throws IOException {
    SlabWriters writers = new SlabWriters(folder, 9, KEEPER, of(2));
    writers.add(8);
    assertEquals(of(2, 8), SlabWriters.ofEarlier(folder, 9, KEEPER));
    writers.close();
    assertEquals(of(2, 8), SlabWriters.ofEarlier(folder, 9, KEEPER));
    new SlabWriters(folder, 9, KEEPER, of()).close();
    assertEquals(of(), SlabWriters.ofEarlier(folder, 9, KEEPER));
  }

  @Test
  void ofAnotherKeeper_orOtherSlabs_countsForNothing() throws IOException {
    assertNull(SlabWriters.ofEarlier(folder, 9, KEEPER), "there is none");
    new SlabWriters(folder, 9, KEEPER, of(2)).close();
    assertNull(SlabWriters.ofEarlier(folder, 9, 1), "another process");
    assertNull(SlabWriters.ofEarlier(folder, 9, 0), "no process");
    assertNull(SlabWriters.ofEarlier(folder, 8, KEEPER), "other slabs");
    assertEquals(of(2), SlabWriters.ofEarlier(folder, 9, KEEPER));
  }

  @Test
  void brokenAnywhereInItsHead_countsForNothing() throws IOException {
    new SlabWriters(folder, 2, KEEPER, of()).close();
    Path file = folder.resolve("writers");
    byte[] right = Files.readAllBytes(file);
    for (int i = 0; i < 32; i++) {
      byte[] wrong = right.clone();
      wrong[i] ^= 1;
      Files.write(file, wrong);
      assertNull(SlabWriters.ofEarlier(folder, 2, KEEPER), "byte " + i);
    }
    Files.write(file, new byte[0]);
    assertNull(SlabWriters.ofEarlier(folder, 2, KEEPER), "empty");
    Files.write(file, right);
    assertEquals(of(), SlabWriters.ofEarlier(folder, 2, KEEPER));
  }

  @Test
  void noRightToWrite_isSaid() throws IOException {
    Files.createDirectory(folder.resolve("writers"));
    IOException refused =
        assertThrows(IOException.class, () -> new SlabWriters(folder, 2, KEEPER, of()));
    assertEquals(
        "'" + folder.resolve("writers") + "' can't be written",
        String.valueOf(refused.getMessage()).split(":", -1)[0]);
  }
}
