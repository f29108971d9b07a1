package io.kvtier.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.eclipsesource.json.Json;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** What 'top' shows: only what the daemon has, and words that agree with their numbers. */
final class TopFrameTest {
  private static final Path SOCKET = Path.of("/k.sock");

  private static String frame(Places places, Map<String, Long> now) {
    CounterChange change = new CounterChange(Map.of(), now, 1);
    return String.join("\n", TopFrame.lines(SOCKET, places, change, 0));
  }

  @Test
  void lines_memoryAlone_nameNoOtherPlace() {
    String frame =
        frame(
            new Places(List.of("host")),
            Map.of("host_bytes_capacity", 1024L, "host_bytes_used", 512L));
    assertTrue(frame.contains("host    ##########.......... 512 B of 1.0 KiB, 0 blocks"), frame);
    for (String other : List.of("ssd", "SSD", "object", "gpu", "GPU", "demotions", "promotions")) {
      assertFalse(frame.contains(other), other + " in\n" + frame);
    }
  }

  @Test
  void lines_allPlaces_haveARowEach() {
    String frame = frame(new Places(List.of("host", "ssd", "object", "gpu")), Map.of());
    for (String row : List.of("\nhost ", "\nssd ", "\nobject ", "\ngpu ", "\ngpu to gpu ")) {
      assertTrue(frame.contains(row), row + " in\n" + frame);
    }
    assertTrue(frame.contains("memory -, SSD -, object store -, another GPU -"), frame);
    assertTrue(frame.contains("demotions 0/s, promotions 0/s"), frame);
  }

  @Test
  void lines_oneOfEach_areSingular() {
    Map<String, Long> one = new HashMap<>();
    one.put("sessions", 2L);
    one.put("operations", 1L);
    one.put("host_bytes_capacity", 1024L);
    one.put("host_slots_resident", 1L);
    String frame = frame(new Places(List.of("host")), one);
    assertTrue(frame.contains("1 other session, 1 request in flight"), frame);
    assertTrue(frame.contains("1 block\n"), frame);
    one.put("sessions", 1L);
    assertTrue(frame(new Places(List.of("host")), one).contains("no other session"));
  }

  @Test
  void places_ofAReport_areThoseThatAreConfigured() {
    String memory = "{\"tiers\":[{\"tier\":\"host\"}],\"gpus\":[]}";
    assertEquals(List.of("host"), Places.of(new Report(Json.parse(memory).asObject())).names());
    String all =
        "{\"tiers\":[{\"tier\":\"host\"},{\"tier\":\"ssd\"}],\"object\":{},\"gpus\":[{\"gpu\":0}]}";
    assertEquals(
        List.of("host", "ssd", "object", "gpu"),
        Places.of(new Report(Json.parse(all).asObject())).names());
  }

  @Test
  void places_ofCounters_areThoseThatWereUsed() {
    Map<String, Long> counters =
        Map.of("host_bytes_capacity", 1L, "ssd_bytes_capacity", 0L, "object_stored", 2L);
    assertEquals(List.of("host", "object"), Places.of(counters).names());
    assertEquals(
        List.of("host", "gpu", "object"),
        new Places(List.of("host", "gpu")).and(Places.of(counters)).names());
  }
}
