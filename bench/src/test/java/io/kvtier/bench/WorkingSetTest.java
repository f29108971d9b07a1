package io.kvtier.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

final class WorkingSetTest {
  @Test
  void numbers_areEachBlockOnce() {
    try (Arena arena = Arena.ofConfined()) {
      WorkingSet set = new WorkingSet(64, 12, 4, arena);
      Set<Integer> numbers = new TreeSet<>();
      for (int batch = 0; batch < set.batches(); batch++) {
        assertEquals(4, set.batch(batch).size());
        for (int place = 0; place < 4; place++) {
          numbers.add(set.number(batch, place));
        }
      }
      assertEquals(3, set.batches());
      assertEquals(12, numbers.size());
      assertEquals(256, set.batchBytes());
    }
  }

  @Test
  void check_wrongBytes_isRefused() {
    try (Arena arena = Arena.ofConfined()) {
      WorkingSet set = new WorkingSet(64, 12, 4, arena);
      set.mark(1);
      set.check(1);
      MemorySegment.copy(set.batch(1).get(2), 0, set.batch(1).get(3), 0, 64);
      assertThrows(IllegalStateException.class, () -> set.check(1));
    }
  }

  @Test
  void blocksThatAreNoBatches_areRefused() {
    try (Arena arena = Arena.ofConfined()) {
      assertThrows(IllegalArgumentException.class, () -> new WorkingSet(64, 13, 4, arena));
    }
  }
}
