package io.kvtier.tiers.directory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;

final class RunSearchTest {
  /** Returns how many rounds there were. */
  private static int search(RunSearch search, int run) {
    int rounds = 0;
    for (int[] places = search.next(); places.length > 0; places = search.next()) {
      rounds++;
      assertTrue(places.length <= RunSearch.PROBES);
      for (int i = 0; i < places.length; i++) {
        assertTrue(i == 0 || places[i] > places[i - 1]);
        search.answer(i, places[i] < run);
      }
      search.endRound();
    }
    return rounds;
  }

  @Property(tries = 3000)
  void search_anyRun_findsItInThreeRounds(@ForAll long seed) {
    Random random = new Random(seed);
    int blocks = 1 + random.nextInt(4096);
    int run = random.nextInt(blocks + 1);
    RunSearch search = new RunSearch(blocks);

    assertTrue(search(search, run) <= 3);
    assertEquals(run, search.run());
  }

  @Test
  void search_withoutAnswers_ends() {
    RunSearch search = new RunSearch(2048);
    int rounds = 0;
    while (search.next().length > 0) {
      search.endRound();
      rounds++;
    }
    assertTrue(rounds <= 3, rounds + " rounds");
  }

  @Test
  void search_ofASilentPlace_passesItOver() {
    RunSearch search = new RunSearch(16);
    int[] places = search.next();
    for (int i = 0; i < places.length; i++) {
      if (i != 3) {
        search.answer(i, i < 10);
      }
    }
    search.endRound();

    assertEquals(0, search.next().length);
    assertEquals(10, search.run());
  }
}
