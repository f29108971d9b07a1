package io.kvtier.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.eclipsesource.json.Json;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What {@code kvtier tiers} says about NUMA nodes. */
final class TiersCommandTest {
  @Test
  void numaLines_nodesWithTheirSlabsAndGpus() {
    assertEquals(
        List.of(
            "NUMA NODE   SLABS  IN MEMORY  PROCESSORS  GPUS",
            "0          32 GiB     32 GiB          48  0000:1a:00.0, 0000:1b:00.0",
            "1          32 GiB     31 GiB          48  -"),
        lines(
            """
            {"nodes": [
               {"node": 0, "slab_bytes": 34359738368, "taken_bytes": 34359738368, "processors": 48,
                "gpus": ["0000:1a:00.0", "0000:1b:00.0"]},
               {"node": 1, "slab_bytes": 34359738368, "taken_bytes": 33285996544, "processors": 48,
                "gpus": []}],
             "elsewhere_bytes": 0, "trouble": ""}\
            """));
  }

  @Test
  void numaLines_memoryElsewhere_notCounted_andTrouble_areSaid() {
    assertEquals(
        List.of(
            "NUMA NODE    SLABS  IN MEMORY  PROCESSORS  GPUS",
            "0          1.0 KiB          ?           1  -",
            "others           -    2.0 KiB           -  -",
            "Slabs are not bound to NUMA nodes: mbind failed. 'kvtier doctor' names the cure."),
        lines(
            """
            {"nodes": [
               {"node": 0, "slab_bytes": 1024, "taken_bytes": -1, "processors": 1, "gpus": []}],
             "elsewhere_bytes": 2048, "trouble": "mbind failed"}\
            """));
  }

  private static List<String> lines(String json) {
    return TiersCommand.numaLines(Json.parse(json).asObject()).stream()
        .map(line -> line.replaceAll("@\\|[a-z,]+ |\\|@", "").stripTrailing())
        .toList();
  }
}
