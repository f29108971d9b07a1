package io.kvtier.policies.simulation;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.policies.EvictionPolicies;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.Test;

/**
 * What each policy has hit and evicted, to the last block, since the figures in the documents were
 * made: a change that makes a policy decide otherwise is either meant or a defect. {@link
 * OracleTest} says what is right where there is a plain program to say so.
 */
final class KnownHitsTest {
  private static final double[] FRACTIONS = {0.01, 0.05, 0.25};

  /** What came out this time; to be taken for the known ones where the change was meant. */
  private static final Path MADE = Path.of("target/known-hits.txt");

  private static List<String> policies() {
    List<String> all = new ArrayList<>();
    EvictionPolicies.names().forEach(all::add);
    for (String inner : List.of("s3fifo", "sieve", "arc", "tinylfu", "lfu")) {
      all.add("lineage/" + inner);
    }
    return all;
  }

  @Test
  void everyPolicy_hitsWhatItHit() throws IOException {
    StringBuilder made = new StringBuilder();
    Trace trace = Traces.of(Traces.made(1200, 11));
    for (Order order : Order.values()) {
      Replay replay = new Replay(trace, order, 0);
      for (String policy : policies()) {
        for (double fraction : FRACTIONS) {
          int capacity = (int) Math.max(1, Math.round(fraction * trace.distinct()));
          Outcome outcome = replay.run(policy, capacity);
          made.append(policy).append(' ').append(order).append(' ').append(capacity);
          made.append(": hits ").append(outcome.blockHits());
          made.append(", in leading runs ").append(outcome.prefixHits());
          made.append(", evictions ").append(outcome.evictions()).append('\n');
        }
      }
    }
    Files.writeString(MADE, made);
    try (InputStream known = KnownHitsTest.class.getResourceAsStream("/known-hits.txt")) {
      String text =
          new String(Objects.requireNonNull(known).readAllBytes(), StandardCharsets.UTF_8);
      assertEquals(text, made.toString(), "if that is meant, " + MADE + " has the new ones");
    }
  }
}
