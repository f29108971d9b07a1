package io.kvtier.daemon.events;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ResidencyTableTest {

  private static EventRecord record(int number) {
    EventRecord record = new EventRecord();
    record.key[0] = (byte) number;
    record.key[31] = (byte) (number >> 8);
    record.keyBytes = 32;
    record.namespaceId = number % 3;
    record.group = number % 2;
    return record;
  }

  private static int number(byte[] key) {
    return Byte.toUnsignedInt(key[0]) | Byte.toUnsignedInt(key[31]) << 8;
  }

  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3, 4, 5})
  void randomChanges_sweeps_showWhatWasNotSeen(long seed) throws IOException {
    SplittableRandom random = new SplittableRandom(seed);
    Map<Integer, int[]> oracle = new HashMap<>();
    try (ResidencyTable table = new ResidencyTable(512)) {
      int round = 0;
      for (int step = 0; step < 20_000; step++) {
        int number = random.nextInt(400);
        EventRecord record = record(number);
        int tiers = 1 + random.nextInt(3);
        if (random.nextInt(1000) == 0) {
          round++;
        } else if (random.nextInt(3000) == 0) {
          assertSweep(table, oracle, round);
        } else if (random.nextBoolean()) {
          table.add(record, tiers, round);
          int[] rounds = oracle.computeIfAbsent(number, _ -> new int[] {-1, -1});
          for (int tier = 0; tier < 2; tier++) {
            rounds[tier] = (tiers & 1 << tier) != 0 ? round : rounds[tier];
          }
        } else {
          table.remove(record, tiers);
          int[] rounds = oracle.getOrDefault(number, new int[] {-1, -1});
          for (int tier = 0; tier < 2; tier++) {
            rounds[tier] = (tiers & 1 << tier) != 0 ? -1 : rounds[tier];
          }
        }
        oracle.values().removeIf(rounds -> Arrays.equals(rounds, new int[] {-1, -1}));
        assertEquals(oracle.size(), table.size(), "seed " + seed + ", step " + step);
      }
      assertSweep(table, oracle, round + 1);
      assertEquals(0, table.size());
    }
  }

  private static void assertSweep(ResidencyTable table, Map<Integer, int[]> oracle, int round) {
    Set<String> expected = new HashSet<>();
    oracle.forEach((number, rounds) -> {
      int stale = 0;
      for (int tier = 0; tier < 2; tier++) {
        if (rounds[tier] >= 0 && rounds[tier] < round) {
          stale |= 1 << tier;
          rounds[tier] = -1;
        }
      }
      if (stale != 0) {
        expected.add(number + " of " + number % 3 + " and " + number % 2 + ": " + stale);
      }
    });
    oracle.values().removeIf(rounds -> Arrays.equals(rounds, new int[] {-1, -1}));
    Set<String> shown = new HashSet<>();
    table.sweep(
        round,
        (key, keyBytes, namespaceId, group, tiers) ->
            shown.add(number(key) + " of " + namespaceId + " and " + group + ": " + tiers));
    assertEquals(expected, shown);
  }
}
