package io.kvtier.policies.simulation;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.zip.GZIPInputStream;

/** Traces for tests. */
public final class Traces {
  static final String CONVERSATION = "mooncake_fast25_conversation_trace.jsonl.gz";
  static final String SYNTHETIC = "mooncake_fast25_synthetic_trace.jsonl.gz";

  private Traces() {}

  private static Path pathOf(String name) {
    return Path.of(System.getenv().getOrDefault("KVTIER_TRACES", "none"), name);
  }

  static boolean isAvailable(String name) {
    return Files.exists(pathOf(name));
  }

  static List<long[]> whole(String name) throws IOException {
    return read(pathOf(name));
  }

  /** The first 8,000 requests of the conversation trace, which are in the repository. */
  static List<long[]> slice() throws IOException {
    return read(Path.of("../bench/traces/mooncake_fast25_conversation_first_8000.jsonl.gz"));
  }

  private static List<long[]> read(Path file) throws IOException {
    List<long[]> requests = new ArrayList<>();
    try (BufferedReader lines =
        new BufferedReader(
            new InputStreamReader(
                new GZIPInputStream(Files.newInputStream(file)), StandardCharsets.UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        String ids = line.substring(line.indexOf('[') + 1, line.indexOf(']'));
        requests.add(
            Arrays.stream(ids.split(",", -1)).mapToLong(i -> Long.parseLong(i.strip())).toArray());
      }
    }
    return requests;
  }

  /**
   * Conversations of several turns behind a few system prompts, interleaved; each turn has the
   * blocks of the one before it and more.
   */
  static List<long[]> made(int requests, long seed) {
    SplittableRandom random = new SplittableRandom(seed);
    List<long[]> live = new ArrayList<>();
    List<long[]> all = new ArrayList<>();
    long next = 1000;
    for (int i = 0; i < requests; i++) {
      long[] before;
      if (live.isEmpty() || random.nextInt(3) == 0) {
        long system = random.nextInt(5);
        before = new long[] {2 * system, 2 * system + 1};
      } else {
        before = live.remove(random.nextInt(live.size()));
      }
      long[] turn = Arrays.copyOf(before, before.length + 1 + random.nextInt(12));
      for (int j = before.length; j < turn.length; j++) {
        turn[j] = next++;
      }
      all.add(turn);
      if (random.nextInt(4) != 0) {
        live.add(turn);
      }
    }
    return all;
  }

  static Trace of(List<long[]> requests) {
    Trace.Builder builder = new Trace.Builder();
    requests.forEach(builder::add);
    return builder.build();
  }
}
