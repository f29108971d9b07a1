package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * The places that a daemon keeps blocks in: what is not configured is not shown.
 *
 * @param names of host, ssd, object and gpu, those that there are
 */
record Places(List<String> names) {
  Places {
    names = List.copyOf(names);
  }

  boolean has(String name) {
    return names.contains(name);
  }

  /** Also those of another reading: an engine may have brought its GPU since. */
  Places and(Places others) {
    List<String> all = new ArrayList<>(names);
    others.names.stream().filter(name -> !all.contains(name)).forEach(all::add);
    return new Places(all);
  }

  /** Of a daemon that answers. */
  static Places of(Report report) {
    List<String> names = new ArrayList<>();
    report.tiers().forEach(tier -> names.add(tier.name()));
    if (report.object() != null) {
      names.add("object");
    }
    if (report.json().get("gpus") instanceof JsonArray gpus && !gpus.isEmpty()) {
      names.add("gpu");
    }
    return new Places(names);
  }

  /** Of one that does not answer: what its counters show to be there, or to have been used. */
  static Places of(Map<String, Long> counters) {
    List<String> names = new ArrayList<>();
    for (String tier : List.of("host", "ssd")) {
      addIfAny(names, tier, counters, tier + "_bytes_capacity");
    }
    addIfAny(
        names,
        "object",
        counters,
        "object_read_bytes",
        "object_written_bytes",
        "object_stored",
        "object_errors");
    addIfAny(
        names,
        "gpu",
        counters,
        "regions",
        "gpu_offloaded_bytes",
        "gpu_onboarded_bytes",
        "hits_gpu");
    return new Places(names);
  }

  private static void addIfAny(
      List<String> names, String place, Map<String, Long> counters, String... evidence) {
    for (String counter : evidence) {
      if (counters.getOrDefault(counter, 0L) > 0) {
        names.add(place);
        return;
      }
    }
  }
}
