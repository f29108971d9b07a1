package io.kvtier.daemon.index.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Verb;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.LongRange;
import org.junit.jupiter.api.Test;

final class LatenciesTest {
  private final Latencies latencies = new Latencies();

  @Property
  void bucketOf_anyValue_isNoWiderThanAnEighthOfIt(
      @ForAll @LongRange(max = (1L << 41) - 1) long ns) {
    int bucket = Latencies.bucketOf(ns);

    assertTrue(bucket >= 0 && bucket < Latencies.BUCKETS);
    assertTrue(ns < Latencies.limitOf(bucket));
    long below = bucket == 0 ? 0 : Latencies.limitOf(bucket - 1);
    assertTrue(below <= ns);
    assertTrue(Latencies.limitOf(bucket) - below <= Math.max(1, below / 8));
  }

  @Test
  void bucketOf_powersOfTwo_beginBuckets() {
    for (int power = 0; power < 41; power++) {
      int bucket = Latencies.bucketOf(1L << power);
      assertEquals(1L << power, Latencies.limitOf(bucket - 1), "2^" + power);
    }
  }

  @Test
  void answered_inTheRoundItCame_takesUntilTheNextRound() {
    latencies.roundBegins(1000);
    long began = latencies.roundNs();
    latencies.answered(Verb.ACQUIRE, began);
    latencies.answered(Verb.ACQUIRE, began);
    latencies.answered(Verb.PING, began);
    assertEquals(0, Latencies.total(latencies.counts(Latencies.Kind.GET)));

    latencies.roundBegins(1005);

    assertEquals(2, latencies.counts(Latencies.Kind.GET)[5]);
    assertEquals(10, latencies.sumNs(Latencies.Kind.GET));
    latencies.roundBegins(2000);
    assertEquals(2, Latencies.total(latencies.counts(Latencies.Kind.GET)));
  }

  @Test
  void answered_inALaterRound_tookFromRoundToRound() {
    latencies.roundBegins(1000);
    long began = latencies.roundNs();
    latencies.roundBegins(1007);
    latencies.answered(Verb.OFFLOAD, began);

    assertEquals(1, latencies.counts(Latencies.Kind.OFFLOAD)[7]);
  }

  @Test
  void quantile_ofAHundredValues_isTheOneAtItsRank() {
    for (int i = 0; i < 98; i++) {
      latencies.took(Latencies.Kind.LOAD_SSD, 3);
    }
    latencies.took(Latencies.Kind.LOAD_SSD, 9);
    latencies.took(Latencies.Kind.LOAD_SSD, Long.MAX_VALUE);
    long[] counts = latencies.counts(Latencies.Kind.LOAD_SSD);

    assertEquals(3, Latencies.quantile(counts, 0.5));
    assertEquals(9, Latencies.quantile(counts, 0.99));
    assertEquals((1L << 41) - 1, Latencies.quantile(counts, 1));
    assertEquals(-1, Latencies.quantile(new long[Latencies.BUCKETS], 0.5));
  }
}
