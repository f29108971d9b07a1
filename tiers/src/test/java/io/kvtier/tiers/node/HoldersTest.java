package io.kvtier.tiers.node;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HashSet;
import java.util.Random;
import java.util.Set;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;

final class HoldersTest {
  @Property(tries = 500)
  void holders_anyChanges_areASetOfAtMostFour(@ForAll long seed) {
    Random random = new Random(seed);
    long holders = Holders.NONE;
    Set<Integer> expected = new HashSet<>();
    for (int i = 0; i < 100; i++) {
      int number = random.nextInt(4) * (Holders.NUMBERS_MAX - 1) / 3 + random.nextInt(2);
      number = Math.min(number, Holders.NUMBERS_MAX - 1);
      if (random.nextInt(3) > 0) {
        holders = Holders.add(holders, number);
        if (expected.size() < Holders.MAX) {
          expected.add(number);
        }
      } else {
        holders = Holders.remove(holders, number);
        expected.remove(number);
      }
      Set<Integer> found = new HashSet<>();
      for (int place = 0; place < Holders.MAX; place++) {
        if (Holders.at(holders, place) >= 0) {
          found.add(Holders.at(holders, place));
          assertEquals(true, Holders.has(holders, Holders.at(holders, place)));
        }
      }
      assertEquals(expected, found);
    }
    assertEquals(expected.isEmpty(), holders == Holders.NONE);
  }
}
