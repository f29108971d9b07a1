package io.kvtier.tiers.object.janitor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

final class AgeHistogramTest {
  @Test
  void bucket_olderAge_isNeverLowerAndCloseBy() {
    assertEquals(0, AgeHistogram.bucket(-5));
    int before = -1;
    for (long age = 0; age >= 0 && age < Long.MAX_VALUE / 2; age += 1 + age / 200) {
      int bucket = AgeHistogram.bucket(age);
      assertTrue(bucket == before || bucket == before + 1, age + " is in bucket " + bucket);
      assertTrue(AgeHistogram.bucket(age + age / 64 + 1) > bucket, "a 64th older than " + age);
      before = bucket;
    }
    new AgeHistogram().add(AgeHistogram.bucket(Long.MAX_VALUE), 1);
  }

  @Test
  void oldest_wanted_isTheOlderBucketsAndAPartOfOne() {
    AgeHistogram histogram = new AgeHistogram();
    histogram.add(10, 100);
    histogram.add(20, 50);
    histogram.add(30, 7);
    assertEquals(new AgeHistogram.Oldest(30, 5), histogram.oldest(5));
    assertEquals(new AgeHistogram.Oldest(20, 13), histogram.oldest(20));
    assertEquals(new AgeHistogram.Oldest(10, 43), histogram.oldest(100));
    assertEquals(0, histogram.oldest(1000).bucket());
    histogram.clear();
    assertEquals(0, histogram.oldest(1).bucket());
  }
}
