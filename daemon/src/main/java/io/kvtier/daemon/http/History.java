package io.kvtier.daemon.http;

import io.kvtier.daemon.index.KnownTiers;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Hits;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The counters of the last hour: one sample a second for the last five minutes, and one in ten
 * seconds before. What engines saved is known of the last day. Confined to the event loop.
 */
final class History {
  private static final int FINE_SAMPLES = 301;
  private static final int COARSE_SECONDS = 10;
  private static final int COARSE_SAMPLES = 361;
  private static final int DAY_SECONDS = 300;
  private static final int DAY_SAMPLES = 289;
  static final int SECONDS_MAX = 3600;
  static final int STEP_MAX = 600;
  private static final int POINTS_MAX = 360;

  /** Minimum time between two samples whose rate can be a peak: samples can come a little early. */
  private static final long PEAK_NS_MIN = 900_000_000;

  private static final List<Counter> RATES =
      List.of(
          Counter.REQUESTS,
          Counter.LOOKUP_BLOCKS,
          Counter.LOOKUP_HITS,
          Counter.ACQUIRE_BLOCKS,
          Counter.HITS_HOST,
          Counter.HITS_SSD,
          Counter.HITS_OBJECT,
          Counter.HITS_GPU,
          Counter.HITS_NODE,
          Counter.MISSES,
          Counter.PUT_BLOCKS,
          Counter.PUT_BUSY,
          Counter.EVICTIONS,
          Counter.SSD_EVICTIONS,
          Counter.DROPPED,
          Counter.DELETED,
          Counter.NOT_ADMITTED,
          Counter.DEMOTIONS,
          Counter.PROMOTIONS,
          Counter.OBJECT_FETCHED,
          Counter.OBJECT_STORED,
          Counter.NODE_FETCHED,
          Counter.NODE_SERVED,
          Counter.SPILLED,
          Counter.DEADLINES,
          Counter.CORRUPT,
          Counter.IO_ERRORS,
          Counter.OBJECT_ERRORS,
          Counter.GPU_ERRORS,
          Counter.NODE_ERRORS,
          Counter.SAVED_TOKENS,
          Counter.SAVED_PREFILL_NS,
          Counter.SPENT_LOAD_NS,
          Counter.TOOL_LOOKUP_BLOCKS,
          Counter.TOOL_LOOKUP_HITS,
          Counter.TOOL_HITS,
          Counter.TOOL_MISSES);

  private static final List<Counter> SAVINGS =
      List.of(Counter.SAVED_TOKENS, Counter.SAVED_PREFILL_NS, Counter.SPENT_LOAD_NS);

  private static final List<Counter> GAUGES =
      List.of(
          Counter.GAUGE_HOST_BYTES_USED,
          Counter.GAUGE_HOST_BYTES_CAPACITY,
          Counter.GAUGE_SSD_BYTES_USED,
          Counter.GAUGE_SSD_BYTES_CAPACITY,
          Counter.GAUGE_BLOCKS,
          Counter.GAUGE_SESSIONS,
          Counter.GAUGE_LEASES,
          Counter.GAUGE_OPERATIONS);

  private static final Map<Counter, String> LINKS = links();

  private final Counters counters;
  private final Latencies latencies;
  private final Samples fine = new Samples(FINE_SAMPLES, 1);
  private final Samples coarse = new Samples(COARSE_SAMPLES, COARSE_SECONDS);
  private final Samples day = new Samples(DAY_SAMPLES, DAY_SECONDS);
  private final Map<Counter, Double> peaks = new EnumMap<>(Counter.class);
  private int untilCoarse;
  private int untilDay;

  History(Counters counters, Latencies latencies) {
    this.counters = counters;
    this.latencies = latencies;
  }

  private static Map<Counter, String> links() {
    Map<Counter, String> links = new LinkedHashMap<>();
    for (TierTraits tier : KnownTiers.ALL) {
      links.put(tier.counts().readBytes(), tier.name() + "_read");
      links.put(tier.counts().writtenBytes(), tier.name() + "_write");
    }
    links.put(Counter.OBJECT_READ_BYTES, "object_read");
    links.put(Counter.OBJECT_WRITTEN_BYTES, "object_write");
    links.put(Counter.GPU_OFFLOADED_BYTES, "gpu_offload");
    links.put(Counter.GPU_ONBOARDED_BYTES, "gpu_onboard");
    links.put(Counter.GPU_PEER_BYTES, "gpu_peer");
    return links;
  }

  /** Takes a sample; called once a second. */
  void sample(long nowNs) {
    fine.take(nowNs, counters, latencies);
    if (untilCoarse == 0) {
      coarse.take(nowNs, counters, latencies);
      untilCoarse = COARSE_SECONDS;
    }
    untilCoarse--;
    if (untilDay == 0) {
      day.take(nowNs, counters, latencies);
      untilDay = DAY_SECONDS;
    }
    untilDay--;
    // After a late sample the next one comes soon: the change between them is not the rate of a
    // second.
    int before = 1;
    while (before < fine.size() && fine.elapsedNs(before, 0) < PEAK_NS_MIN) {
      before++;
    }
    if (before < fine.size()) {
      for (Counter link : LINKS.keySet()) {
        peaks.merge(link, fine.rate(before, 0, link), Math::max);
      }
    }
  }

  /**
   * The samples of the last seconds, oldest first. Their times are those of the wall clock. If the
   * wall clock is set, all times move, and no amount changes.
   *
   * @param step seconds between samples; 0 for a suitable step
   */
  Answer answer(int seconds, int step, long nowMs, long nowNs) {
    boolean isFine = seconds < FINE_SAMPLES && step < COARSE_SECONDS;
    Samples samples = isFine ? fine : coarse;
    int wanted = Math.max(step, Math.ceilDiv(seconds, POINTS_MAX));
    int stride = Math.max(1, Math.ceilDiv(wanted, samples.seconds()));
    int points =
        Math.max(
            0, Math.min(seconds / (stride * samples.seconds()), (samples.size() - 1) / stride));
    return Answer.json(
        new Window(samples, stride, points, nowMs, nowNs)
            .json()
            .put("day", lastDay(nowNs))
            .put("link_peaks", peaks()));
  }

  /** What engines saved within a day, or since the start where that was later. */
  private JsonObject lastDay(long nowNs) {
    int first = day.size() - 1;
    JsonObject json = new JsonObject();
    json.put("seconds", first < 0 ? 0 : (nowNs - day.timeNs(first)) / 1_000_000_000);
    for (Counter counter : SAVINGS) {
      json.put(counter.key(), first < 0 ? 0 : counters.get(counter) - day.value(first, counter));
    }
    return json;
  }

  /** The highest rate of each link in any second since the start. */
  private JsonObject peaks() {
    JsonObject json = new JsonObject();
    LINKS.forEach((counter, name) -> json.put(name, rounded(peaks.getOrDefault(counter, 0.0))));
    return json;
  }

  private static double rounded(double value) {
    return Math.round(value * 1000) / 1000.0;
  }

  /** A part of the last samples, with a fixed stride. */
  private record Window(Samples samples, int stride, int points, long nowMs, long nowNs) {
    private interface Figure {
      @Nullable Number at(int older, int younger);
    }

    private JsonArray series(Figure figure) {
      JsonArray series = new JsonArray();
      for (int i = points - 1; i >= 0; i--) {
        series.add(figure.at((i + 1) * stride, i * stride));
      }
      return series;
    }

    private JsonObject json() {
      JsonObject json = new JsonObject();
      json.put("step_s", stride * samples.seconds());
      if (samples.size() > 0) {
        // The beginning of the first point's time: samples are not exactly one step apart.
        json.put("from_ms", timeMs(points * stride));
      }
      json.put("times_ms", series((older, younger) -> timeMs(younger)));
      json.put("amounts", amounts());
      json.put("since_start", sinceStart());
      JsonObject rates = new JsonObject();
      for (Counter counter : RATES) {
        rates.put(counter.key(), rate(counter));
      }
      json.put("rates", rates);
      JsonObject links = new JsonObject();
      LINKS.forEach((counter, name) -> links.put(name, rate(counter)));
      json.put("links", links);
      JsonObject gauges = new JsonObject();
      for (Counter gauge : GAUGES) {
        gauges.put(gauge.key(), series((older, younger) -> samples.value(younger, gauge)));
      }
      json.put("gauges", gauges);
      json.put("hit_ratio", hitRatios());
      json.put("latency", latencies());
      return json;
    }

    /** The growth of each counter in the whole time. A sum of rates would have rounding errors. */
    private JsonObject amounts() {
      JsonObject amounts = new JsonObject();
      for (Counter counter : RATES) {
        amounts.put(counter.key(), points == 0 ? 0 : change(points * stride, 0, counter));
      }
      LINKS.forEach((counter, name) ->
          amounts.put(name, points == 0 ? 0 : change(points * stride, 0, counter)));
      return amounts;
    }

    /** The counters at the end of this time: no amount can be larger. */
    private JsonObject sinceStart() {
      JsonObject values = new JsonObject();
      for (Counter counter : RATES) {
        values.put(counter.key(), samples.size() == 0 ? 0 : samples.value(0, counter));
      }
      return values;
    }

    private long timeMs(int age) {
      return nowMs - (nowNs - samples.timeNs(age)) / 1_000_000;
    }

    private JsonArray rate(Counter counter) {
      return series((older, younger) -> rounded(samples.rate(older, younger, counter)));
    }

    /** The share of each tier in the blocks that gets asked for; null if no block was asked for. */
    private JsonObject hitRatios() {
      JsonObject ratios = new JsonObject();
      ratios.put("all", hitRatio(Hits.COUNTERS));
      for (TierTraits tier : KnownTiers.ALL) {
        ratios.put(tier.name(), hitRatio(List.of(tier.counts().hits())));
      }
      ratios.put("object", hitRatio(List.of(Counter.HITS_OBJECT)));
      ratios.put("gpu", hitRatio(List.of(Counter.HITS_GPU)));
      ratios.put("node", hitRatio(List.of(Counter.HITS_NODE)));
      return ratios;
    }

    private JsonArray hitRatio(List<Counter> hits) {
      return series((older, younger) -> {
        long found = 0;
        for (Counter counter : hits) {
          found += change(older, younger, counter);
        }
        // A block is found after it was asked for, perhaps in the next second.
        long settled = change(older, younger, Counter.MISSES);
        for (Counter counter : Hits.COUNTERS) {
          settled += change(older, younger, counter);
        }
        return settled == 0 ? null : (Number) rounded((double) found / settled);
      });
    }

    private long change(int older, int younger, Counter counter) {
      return samples.value(younger, counter) - samples.value(older, counter);
    }

    private JsonObject latencies() {
      JsonObject all = new JsonObject();
      for (Latencies.Kind kind : Latencies.Kind.values()) {
        all.put(
            kind.key(),
            new JsonObject()
                .put("count", series((older, younger) -> sum(older, younger, kind)))
                .put("p50_ns", series((o, y) -> highest(o, y, age -> samples.medianNs(age, kind))))
                .put("p99_ns", series((o, y) -> highest(o, y, age -> samples.p99Ns(age, kind)))));
      }
      return all;
    }

    private long sum(int older, int younger, Latencies.Kind kind) {
      long sum = 0;
      for (int age = younger; age < older; age++) {
        sum += samples.count(age, kind);
      }
      return sum;
    }

    private interface Aged {
      long at(int age);
    }

    /** The highest value of the samples of a point: a point shows its worst sample. */
    private static @Nullable Number highest(int older, int younger, Aged figure) {
      long highest = -1;
      for (int age = younger; age < older; age++) {
        highest = Math.max(highest, figure.at(age));
      }
      return highest < 0 ? null : (Number) highest;
    }
  }
}
