package io.kvtier.daemon.grpc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.grpc.CallPlaces.Place;
import io.kvtier.daemon.index.core.Tenants;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

final class CallPlacesTest {
  private static final int CALLS = 1024;
  private static final int BYTE_CALLS = 64;

  private final CallLimits limits = new CallLimits(Tenants.NONE);
  private final CallPlaces places = new CallPlaces(limits, 1);
  private final List<Integer> taken = new ArrayList<>();

  private Place begin(int number, boolean carriesBytes, boolean isKnown) {
    Place place = places.begin(0, carriesBytes, isKnown, false);
    assertNotNull(place, "no place for " + number);
    place.whenTaken(() -> taken.add(number));
    return place;
  }

  private int free() {
    List<Boolean> all = new ArrayList<>();
    while (limits.begin(0, false, false)) {
      all.add(true);
    }
    all.forEach(_ -> limits.end(0, false));
    return all.size();
  }

  @Test
  void begin_whenAllAreTaken_takesTheOldestThatSaidNothing() {
    List<Place> all = new ArrayList<>();
    for (int i = 0; i < CALLS; i++) {
      all.add(begin(i, false, false));
    }
    all.get(0).heard();
    all.add(begin(CALLS, false, false));
    all.add(begin(CALLS + 1, false, false));
    assertEquals(List.of(1, 2), taken);
    all.forEach(Place::end);
    all.forEach(Place::end);
    assertEquals(CALLS, free(), "each place was given back once");
  }

  @Test
  void begin_onlyCallsThatWereHeard_isRefused() {
    List<Place> all = new ArrayList<>();
    for (int i = 0; i < CALLS; i++) {
      all.add(begin(i, false, false));
      all.get(i).heard();
    }
    assertNull(places.begin(0, false, true, false));
    all.getFirst().end();
    assertNotNull(places.begin(0, false, true, false));
  }

  @Test
  void begin_callOfAKnownConnection_keepsItsPlaceWhileThereAreStrangersOrItIsNew() {
    for (int i = 0; i < CALLS - 1; i++) {
      begin(i, false, true);
    }
    begin(CALLS - 1, false, false);
    begin(CALLS, false, true);
    assertEquals(List.of(CALLS - 1), taken, "the stranger's, however new");
    long end = System.nanoTime() + 10_000_000_000L;
    Place late = null;
    while (late == null && System.nanoTime() < end) {
      late = places.begin(0, false, true, false);
    }
    assertNotNull(late);
    assertEquals(List.of(CALLS - 1, 0), taken, "the oldest, when it had had its time");
  }

  @Test
  void begin_callThatCarriesBytes_takesThePlaceOfSuchAlone() {
    for (int i = 0; i < BYTE_CALLS; i++) {
      begin(i, true, false);
    }
    for (int i = BYTE_CALLS; i < CALLS; i++) {
      begin(i, false, false);
    }
    begin(CALLS, true, false);
    begin(CALLS + 1, false, false);
    begin(CALLS + 2, true, false);
    assertEquals(List.of(0, 1, 2), taken);
    // The second of these three gave the place of one that carries bytes back.
    assertEquals(0, free());
    Place heard = begin(CALLS + 3, true, false);
    assertEquals(List.of(0, 1, 2, 3), taken);
    heard.end();
    assertTrue(limits.begin(0, true, false));
  }

  @Test
  void whenTaken_afterItWas_isToldAtOnce() {
    Place first = places.begin(0, false, false, false);
    assertNotNull(first);
    for (int i = 1; i <= CALLS; i++) {
      begin(i, false, false);
    }
    first.whenTaken(() -> taken.add(0));
    assertEquals(List.of(0), taken);
  }

  @Test
  void manyThreads_inTheEndAllPlacesAreFree() throws InterruptedException {
    List<Thread> threads = new ArrayList<>();
    for (int t = 0; t < 4; t++) {
      int seed = t;
      threads.add(
          Thread.ofPlatform()
              .start(() -> {
                SplittableRandom random = new SplittableRandom(seed);
                List<Place> mine = new ArrayList<>();
                for (int i = 0; i < 20_000; i++) {
                  if (mine.isEmpty() || random.nextInt(3) > 0) {
                    Place place =
                        places.begin(
                            0, random.nextInt(20) == 0, random.nextBoolean(), random.nextBoolean());
                    if (place != null) {
                      mine.add(place);
                    }
                  } else {
                    Place place = mine.remove(random.nextInt(mine.size()));
                    if (random.nextBoolean()) {
                      place.heard();
                      mine.add(place);
                    } else {
                      place.end();
                    }
                  }
                }
                mine.forEach(Place::end);
              }));
    }
    for (Thread thread : threads) {
      thread.join();
    }
    assertEquals(CALLS, free());
    int bytes = 0;
    while (limits.begin(0, true, false)) {
      bytes++;
    }
    assertEquals(BYTE_CALLS, bytes);
  }
}
