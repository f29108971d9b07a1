package io.kvtier.daemon.index.session;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.Test;

class WaiterTableTest {
  @Test
  void remove_manyOnOneBlock_oldestFirst_eachAtOnce() {
    int many = 200_000;
    WaiterTable waiters = new WaiterTable(many);
    for (int i = 0; i < many; i++) {
      assertEquals(i, waiters.add(7, 1, i));
    }
    assertEquals(WaiterTable.NONE, waiters.add(7, 1, many));
    assertTimeoutPreemptively(
        Duration.ofSeconds(5),
        () -> {
          for (int i = 0; i < many; i++) {
            assertTrue(waiters.remove(i, 1, i));
          }
        });
    assertEquals(0, waiters.size());
    assertFalse(waiters.hasWaiters(7));
  }

  @Test
  void remove_takenOrReused_isNoMore() {
    WaiterTable waiters = new WaiterTable(4);
    int first = waiters.add(7, 1, 0);
    int second = waiters.add(7, 2, 0);
    int other = waiters.add(8, 1, 1);
    assertEquals(second, waiters.take(7));
    assertFalse(waiters.remove(second, 2, 0));
    waiters.free(second);
    assertEquals(second, waiters.add(9, 3, 5));
    assertFalse(waiters.remove(second, 2, 0));
    assertFalse(waiters.remove(WaiterTable.NONE, 1, 0));
    waiters.removeAll(1);
    assertFalse(waiters.remove(first, 1, 0));
    assertFalse(waiters.remove(other, 1, 1));
    assertEquals(1, waiters.size());
    assertTrue(waiters.hasWaiters(9));
  }
}
