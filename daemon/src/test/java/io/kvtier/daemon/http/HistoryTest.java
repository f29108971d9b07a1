package io.kvtier.daemon.http;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Latencies;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.linux.Words;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.Test;

final class HistoryTest {
  private final MemorySegment region =
      Arena.ofAuto().allocate(DaemonRegionDescriptor.REGION_BYTES, 4096);
  private final History history = new History(new Counters(region), new Latencies());
  private long second;

  private void set(Counter counter, long value) {
    Words.putLongRelease(region, counter.offset(), value);
  }

  private void sample() {
    history.sample(second * 1_000_000_000L);
    second++;
  }

  /** Asked with the newest sample. */
  private JsonObject answer(int seconds, int step) {
    long now = second - 1;
    return history.answer(seconds, step, now * 1000, now * 1_000_000_000L).body().toJsonObject();
  }

  @Test
  void rates_areChangesASecond_andRatiosAreOfWhatWasAskedFor() {
    sample();
    set(Counter.HITS_HOST, 6);
    set(Counter.HITS_SSD, 2);
    set(Counter.MISSES, 2);
    set(Counter.SSD_READ_BYTES, 4096);
    set(Counter.GAUGE_BLOCKS, 5);
    sample();
    sample();

    JsonObject answer = answer(2, 1);

    assertEquals(new JsonArray().add(1000).add(2000), answer.getJsonArray("times_ms"));
    assertEquals(0, answer.getLong("from_ms"));
    assertEquals(
        new JsonArray().add(6.0).add(0.0), answer.getJsonObject("rates").getJsonArray("hits_host"));
    assertEquals(
        new JsonArray().add(0.8).addNull(), answer.getJsonObject("hit_ratio").getJsonArray("all"));
    assertEquals(
        new JsonArray().add(0.2).addNull(), answer.getJsonObject("hit_ratio").getJsonArray("ssd"));
    assertEquals(
        new JsonArray().add(5).add(5), answer.getJsonObject("gauges").getJsonArray("blocks"));
    assertEquals(4096.0, answer.getJsonObject("link_peaks").getDouble("ssd_read"));
  }

  @Test
  void amounts_ofUnevenSeconds_areExactAndNeverMoreThanSinceTheStart() {
    long deleted = 0;
    for (int i = 0; i < 120; i++) {
      // Timers are late by a few milliseconds, and rates are rounded.
      history.sample(i * 1_000_000_000L + (i * 7_654_321L) % 9_000_000);
      deleted += 333 + i % 7;
      set(Counter.DELETED, deleted);
    }
    history.sample(120_000_000_000L);

    JsonObject answer = history.answer(120, 1, 120_000, 120_000_000_000L).body().toJsonObject();

    assertEquals(deleted, answer.getJsonObject("amounts").getLong("deleted"));
    assertEquals(deleted, answer.getJsonObject("since_start").getLong("deleted"));
  }

  @Test
  void day_isWhatWasSavedInTheLast24Hours() {
    for (int i = 0; i <= 30 * 3600; i += 1) {
      set(Counter.SAVED_TOKENS, i);
      set(Counter.SPENT_LOAD_NS, 5);
      sample();
    }

    JsonObject day = answer(300, 1).getJsonObject("day");

    assertEquals(24 * 3600, day.getLong("seconds"), 300);
    assertEquals(day.getLong("seconds"), day.getLong("saved_tokens"));
    assertEquals(0, day.getLong("spent_load_ns"));
  }

  @Test
  void day_ofAYoungDaemon_isSinceItsStart() {
    sample();
    set(Counter.SAVED_TOKENS, 7);
    sample();

    assertEquals(
        new JsonObject()
            .put("seconds", 1)
            .put("saved_tokens", 7)
            .put("saved_prefill_ns", 0)
            .put("spent_load_ns", 0),
        answer(300, 1).getJsonObject("day"));
  }

  @Test
  void amounts_beforeTheSecondSample_areNothing() {
    set(Counter.DELETED, 5);
    sample();

    JsonObject answer = answer(300, 1);

    assertEquals(0, answer.getJsonObject("amounts").getLong("deleted"));
    assertEquals(5, answer.getJsonObject("since_start").getLong("deleted"));
  }

  @Test
  void blocksFromOtherGpus_areHits() {
    sample();
    set(Counter.HITS_GPU, 3);
    set(Counter.MISSES, 1);
    set(Counter.GPU_PEER_BYTES, 8192);
    sample();

    JsonObject answer = answer(1, 1);

    JsonObject ratios = answer.getJsonObject("hit_ratio");
    assertEquals(new JsonArray().add(0.75), ratios.getJsonArray("all"));
    assertEquals(new JsonArray().add(0.75), ratios.getJsonArray("gpu"));
    assertEquals(new JsonArray().add(3.0), answer.getJsonObject("rates").getJsonArray("hits_gpu"));
    assertEquals(
        new JsonArray().add(8192.0), answer.getJsonObject("links").getJsonArray("gpu_peer"));
  }

  @Test
  void peaks_ofSampleThatCameSoonAfterALateOne_areOfAWholeSecond() {
    sample();
    history.sample(1_999_000_000L);
    set(Counter.SSD_READ_BYTES, 4000);
    history.sample(2_000_000_000L);

    // 4000 bytes within a millisecond, but also within the two seconds since the sample before.
    double peak = answer(1, 1).getJsonObject("link_peaks").getDouble("ssd_read");

    assertEquals(2000.0, peak);
  }

  @Test
  void clockThatIsSet_movesAllTimesAndChangesNoAmount() {
    sample();
    sample();
    sample();

    // An hour later by the wall clock, though 2.5 s have passed since the first sample.
    JsonObject answer = history.answer(2, 1, 3_600_000, 2_500_000_000L).body().toJsonObject();

    assertEquals(3_597_500, answer.getLong("from_ms"));
    assertEquals(new JsonArray().add(3_598_500).add(3_599_500), answer.getJsonArray("times_ms"));
  }

  @Test
  void moreThanAnHour_keepsAnHourAndAnswersWithBoundedPoints() {
    for (int i = 0; i < 5000; i++) {
      set(Counter.REQUESTS, i);
      sample();
    }

    JsonObject hour = answer(3600, 1);
    JsonObject minutes = answer(300, 1);
    JsonObject rough = answer(3600, 60);

    assertEquals(10, hour.getInteger("step_s"));
    assertEquals(360, hour.getJsonArray("times_ms").size());
    assertEquals(300, minutes.getJsonArray("times_ms").size());
    assertEquals(4999_000L, minutes.getJsonArray("times_ms").getLong(299));
    assertEquals(60, rough.getInteger("step_s"));
    assertEquals(60, rough.getJsonArray("times_ms").size());
    JsonArray rates = rough.getJsonObject("rates").getJsonArray("requests");
    assertTrue(rates.stream().allMatch(rate -> rate.equals(1.0)), rates.encode());
  }

  @Test
  void withoutSamples_isEmpty() {
    assertEquals(new JsonArray(), answer(300, 0).getJsonArray("times_ms"));
    sample();
    assertEquals(new JsonArray(), answer(300, 0).getJsonArray("times_ms"));
  }
}
