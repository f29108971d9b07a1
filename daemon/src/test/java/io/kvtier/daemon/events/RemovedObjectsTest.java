package io.kvtier.daemon.events;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class RemovedObjectsTest {
  private static EventRecord record(int number) {
    EventRecord record = new EventRecord();
    record.key[0] = (byte) number;
    record.keyBytes = 1;
    record.group = number;
    return record;
  }

  private static List<Integer> all(RemovedObjects removed) {
    List<Integer> all = new ArrayList<>();
    removed.forEach((key, group) -> {
      assertEquals(key[0], group);
      all.add(group);
    });
    return all;
  }

  @Test
  void forEach_isWhatWentLatelyAndDidNotComeBack() {
    RemovedObjects removed = new RemovedObjects(3);
    removed.remove(record(1));
    removed.add(record(1));
    removed.add(record(2));
    removed.add(record(1));
    removed.add(record(3));
    assertEquals(List.of(1, 2, 3), all(removed));
    removed.remove(record(2));
    removed.add(record(4));
    removed.add(record(5));
    assertEquals(List.of(3, 4, 5), all(removed));
  }
}
