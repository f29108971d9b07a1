package io.kvtier.cli;

import com.eclipsesource.json.JsonObject;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The blocks that gets expect from other nodes, and that other nodes expect, by the counters. */
record ExpectedBlocks(Map<String, Long> counters) {
  private static final String[] REASONS = {
    "late", "unwanted", "refused", "unreachable", "broken", "corrupt"
  };

  /** The figures as JSON. */
  JsonObject json() {
    JsonObject lost = new JsonObject();
    for (String reason : REASONS) {
      lost.add(reason, lost(reason));
    }
    return new JsonObject()
        .add("waiting", of("expected"))
        .add("followed", of("followed"))
        .add("blocks", of("node_expected"))
        .add("bytes", of("node_expected_bytes"))
        .add("pieces", of("node_pieces"))
        .add("lost", lost);
  }

  /** The figures in words; empty if no block was expected. */
  String words() {
    long lost = Stream.of(REASONS).mapToLong(this::lost).sum();
    if (of("expected") + of("followed") + of("node_expected") + lost == 0) {
      return "";
    }
    String words =
        Units.counted(of("expected"), "block")
            + " from other nodes now, "
            + Units.count(of("followed"))
            + " by other nodes; "
            + Units.counted(of("node_expected"), "block")
            + " came since the start ("
            + Units.bytes(of("node_expected_bytes"))
            + " in "
            + Units.counted(of("node_pieces"), "piece")
            + ")";
    String reasons =
        Stream.of(REASONS)
            .filter(reason -> lost(reason) > 0)
            .map(reason -> Units.count(lost(reason)) + " " + reason)
            .collect(Collectors.joining(", "));
    return lost == 0 ? words : words + ", and " + Units.count(lost) + " did not: " + reasons;
  }

  private long lost(String reason) {
    return of("node_expected_" + reason);
  }

  private long of(String name) {
    return counters.getOrDefault(name, 0L);
  }
}
