package io.kvtier.cli;

import com.eclipsesource.json.JsonObject;
import java.util.Map;

/** Two readings of the counters, and the time between them. */
record CounterChange(Map<String, Long> before, Map<String, Long> now, double seconds) {
  long value(String name) {
    return now.getOrDefault(name, 0L);
  }

  long more(String name) {
    return value(name) - before.getOrDefault(name, 0L);
  }

  double rate(String name) {
    return more(name) / seconds;
  }

  JsonObject json() {
    JsonObject rates = new JsonObject();
    now.forEach((name, value) -> rates.add(name, rate(name)));
    JsonObject values = new JsonObject();
    now.forEach(values::add);
    return new JsonObject()
        .add("seconds", seconds)
        .add("counters", values)
        .add("per_second", rates);
  }
}
