package io.kvtier.daemon.index.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class DirectoryTest {
  private static final int HOST = 0;
  private static final int SSD = 1;
  private final MemorySegment key = MemorySegment.ofArray(new long[5]);

  private int find(Directory directory, int namespace, int group, int keyBytes, long number) {
    key.fill((byte) 0x5a); // what stands behind a key must not matter
    for (int i = 0; i < keyBytes; i++) {
      key.set(ValueLayout.JAVA_BYTE, i, (byte) (number >>> (8 * (i & 7))));
    }
    return directory.find(namespace, group, keyBytes, key, 0);
  }

  @Test
  void insert_thenFind_tellsApartNamespaceGroupAndLength() throws IOException {
    try (Directory directory = new Directory(100, 1)) {
      assertEquals(Directory.NONE, find(directory, 1, 0, 16, 42));
      int block = directory.insertSought(1, 0, 16);
      assertEquals(block, find(directory, 1, 0, 16, 42));
      assertEquals(Directory.NONE, find(directory, 2, 0, 16, 42));
      assertEquals(Directory.NONE, find(directory, 1, 1, 16, 42));
      assertEquals(Directory.NONE, find(directory, 1, 0, 24, 42));
      assertEquals(Directory.NONE, find(directory, 1, 0, 15, 42));
      directory.checkInvariants();
    }
  }

  @Test
  void findApproached_keysThatAreThereAndNot_asFindSays() throws IOException {
    int keys = 3 * Directory.APPROACHED_MAX + 5;
    int keyBytes = 20;
    int stride = 24;
    MemorySegment sought = MemorySegment.ofArray(new long[keys * stride / 8]);
    for (int i = 0; i < keys; i++) {
      for (int at = 0; at < keyBytes; at++) {
        sought.set(ValueLayout.JAVA_BYTE, (long) i * stride + at, (byte) (i >>> (8 * (at & 1))));
      }
    }
    // Few buckets, so that chains are long.
    try (Directory directory = new Directory(64, 1)) {
      int[] expected = new int[keys];
      for (int i = 0; i < keys; i++) {
        assertEquals(Directory.NONE, directory.find(3, 1, keyBytes, sought, (long) i * stride));
        expected[i] = i % 2 == 0 ? directory.insertSought(3, 1, keyBytes) : Directory.NONE;
      }
      for (int first = 0; first < keys; first += Directory.APPROACHED_MAX) {
        int count = Math.min(Directory.APPROACHED_MAX, keys - first);
        directory.approach(3, 1, keyBytes, sought, (long) first * stride, stride, count);
        directory.checkInvariants();
        sought.asSlice((long) first * stride, (long) count * stride).fill((byte) 7);
        for (int i = 0; i < count; i++) {
          // Whatever became of the memory that the keys came from.
          assertEquals(expected[first + i], directory.findApproached(3, 1, keyBytes, i));
          if (expected[first + i] == Directory.NONE) {
            int added = directory.insertSought(3, 1, keyBytes);
            assertEquals(added, directory.findApproached(3, 1, keyBytes, i));
            directory.unlink(added);
            directory.free(added);
          }
          assertEquals(Directory.NONE, directory.findApproached(2, 1, keyBytes, i));
        }
      }
    }
  }

  @Test
  void unlink_betweenFindAndInsert_theSoughtKeyIsInserted() throws IOException {
    try (Directory directory = new Directory(64, 1)) {
      find(directory, 0, 0, 32, 1);
      int other = directory.insertSought(0, 0, 32);
      assertEquals(Directory.NONE, find(directory, 0, 0, 32, 2));
      directory.unlink(other);
      int block = directory.insertSought(0, 0, 32);
      assertEquals(block, find(directory, 0, 0, 32, 2));
      assertEquals(Directory.NONE, find(directory, 0, 0, 32, 1));
      directory.checkInvariants();
    }
  }

  @Test
  void insert_full_none() throws IOException {
    try (Directory directory = new Directory(64, 1)) {
      for (int i = 0; i < 64; i++) {
        find(directory, 0, 0, 32, i);
        assertNotEquals(Directory.NONE, directory.insertSought(0, 0, 32));
      }
      find(directory, 0, 0, 32, 64);
      assertEquals(Directory.NONE, directory.insertSought(0, 0, 32));
    }
  }

  @Test
  void setState_notInTheLifeCycle_isRefused() throws IOException {
    try (Directory directory = new Directory(64, 1)) {
      find(directory, 0, 0, 8, 1);
      int block = directory.insertSought(0, 0, 8);
      assertThrows(
          IllegalStateException.class,
          () -> directory.copies().setState(HOST, block, CopyState.RESIDENT));
      directory.copies().setState(HOST, block, CopyState.RESERVED);
      directory.copies().setState(HOST, block, CopyState.STAGING);
      directory.copies().setState(HOST, block, CopyState.RESIDENT);
      assertEquals(CopyState.NONE, directory.copies().state(SSD, block));
      assertThrows(
          IllegalStateException.class,
          () -> directory.copies().setState(HOST, block, CopyState.STAGING));
      assertThrows(IllegalStateException.class, () -> directory.addUses(block, -1));
      assertThrows(IllegalStateException.class, () -> directory.addHolds(block, -1));
    }
  }

  @Test
  void randomOperations_likeAMap() throws IOException {
    for (int seed = 0; seed < 20; seed++) {
      SplittableRandom random = new SplittableRandom(seed);
      try (Directory directory = new Directory(256, seed)) {
        Map<Long, Integer> oracle = new HashMap<>();
        for (int step = 0; step < 5000; step++) {
          long number = random.nextInt(400);
          int keyBytes = 1 + (int) (number % 32);
          // A key shorter than its number repeats: the oracle names it by what is left of it.
          long name =
              keyBytes < 8
                  ? (number & ((1L << (8 * keyBytes)) - 1)) | ((long) keyBytes << 40)
                  : number | ((long) keyBytes << 40);
          int found = find(directory, 0, 0, keyBytes, number);
          assertEquals(oracle.getOrDefault(name, Directory.NONE), found);
          if (found != Directory.NONE) {
            if (random.nextBoolean()) {
              directory.unlink(found);
              directory.free(found);
              oracle.remove(name);
            }
          } else {
            int block = directory.insertSought(0, 0, keyBytes);
            if (block != Directory.NONE) {
              oracle.put(name, block);
            } else {
              assertEquals(256, oracle.size());
            }
          }
          if (step % 100 == 0) {
            directory.checkInvariants();
          }
        }
        assertEquals(oracle.size(), directory.size());
      }
    }
  }
}
