package io.kvtier.policies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class EvictionPoliciesTest {
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '"',
      value = {
        "nonsense|no eviction policy is named 'nonsense'; there are ",
        "s3fifo:small|'small' in 's3fifo:small' is not OPTION=VALUE",
        "s3fifo:small=|'small=' in 's3fifo:small=' is not OPTION=VALUE",
        "s3fifo:small=most|option small is 'most', not a number from 0.001 to 0.9",
        "s3fifo:small=2|option small is '2', not a number from 0.001 to 0.9",
        "s3fifo:promote=1.5|option promote is 1.5, not a whole number",
        "s3fifo:size=2|policy s3fifo has no option 'size'; it has ghost, promote, small",
        "lru:size=2|policy lru has no option 'size'; it has none",
        "lru/fifo|policy lru wraps no other policy",
      })
  void create_wrong_saysWhat(String specification, String message) {
    Exception refused =
        assertThrows(
            IllegalArgumentException.class, () -> EvictionPolicies.create(specification, 8, 8));
    assertTrue(String.valueOf(refused.getMessage()).startsWith(message), refused.getMessage());
  }

  @ParameterizedTest
  @CsvSource({"lru", "s3fifo:small=0.2:ghost=0.5:promote=1", "sieve"})
  void create_right_tracksNothing(String specification) {
    assertEquals(0, EvictionPolicies.create(specification, 8, 8).size());
  }

  @ParameterizedTest
  @CsvSource({"lru", "arc", "tinylfu", "forecast", "lineage/s3fifo", "auto"})
  void estimateBytes_moreThanIsMeasured_isWhatItTakes(String specification) {
    int blocks = 1 << 20;
    for (int capacity : new int[] {blocks, blocks / 8}) {
      double taken = EvictionPolicies.create(specification, blocks, capacity).metadataBytes();
      long estimate = EvictionPolicies.estimateBytes(specification, blocks, capacity);
      assertTrue(
          estimate > 0.9 * taken && estimate < 1.6 * taken, estimate + " instead of " + taken);
    }
  }

  @ParameterizedTest
  @CsvSource({"lru", "arc", "tinylfu", "forecast", "auto"})
  void estimateBytes_ofManySizes_isAboutTheirSum(String specification) {
    int blocks = 1 << 18;
    int[] capacities = IntStream.range(0, 16).map(i -> 1000 + i * i * 300).toArray();
    double sum = 0;
    for (int capacity : capacities) {
      sum += EvictionPolicies.create(specification, blocks, capacity).metadataBytes();
    }
    long estimate = EvictionPolicies.estimateBytes(specification, blocks, capacities);
    assertTrue(estimate > 0.9 * sum && estimate < 1.1 * sum, estimate + " instead of " + sum);
  }

  @Test
  void measuredAt_manySizes_areFew() {
    int[] many = IntStream.range(0, 63).map(i -> 5000 + 1000 * i).toArray();
    assertEquals(
        Set.of(4096, 8192, 16_384, 32_768, 65_536, 100_000),
        EvictionPolicies.measuredAt(100_000, many));
    int[] alike = IntStream.range(0, 63).map(i -> i == 0 ? 70_000 : 500).toArray();
    assertEquals(Set.of(500, 70_000), EvictionPolicies.measuredAt(100_000, alike));
    assertEquals(Set.of(100_000), EvictionPolicies.measuredAt(100_000, new int[] {100_000}));
  }

  @Test
  void create_noBlocks_isRefused() {
    assertThrows(IllegalArgumentException.class, () -> EvictionPolicies.create("lru", 8, 9));
    assertThrows(IllegalArgumentException.class, () -> EvictionPolicies.create("lru", 0, 0));
  }
}
