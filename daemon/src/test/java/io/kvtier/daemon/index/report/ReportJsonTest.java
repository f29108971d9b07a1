package io.kvtier.daemon.index.report;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonObject;
import io.kvtier.protocol.Counter;
import io.kvtier.tiers.host.NumaReport;
import io.kvtier.tiers.numa.NumaPlan;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** The JSON of a report: its fields, its length, and its characters. */
final class ReportJsonTest {
  private static final int BYTES_MAX = 64 << 10;

  private static Report report(
      List<Report.Namespace> namespaces,
      @Nullable List<Report.Tenant> tenants,
      Report.@Nullable ObjectTier object,
      HealthReport.Trouble... troubles) {
    Report.Tier host =
        new Report.Tier(
            "host",
            new Report.Space(100, 50, 10, 5, 4, 1),
            "lru",
            List.of(),
            List.of(new Report.SizeClass(4096, 2, 5)),
            "",
            null);
    return new Report(
        new Report.Identity("1.2", 0xabcL, 7, false, "node-0"),
        new HealthReport(List.of(troubles)),
        new Report.Work(
            Map.of(Counter.DROPPED, 3L),
            Map.of("no_room", 3L),
            List.of(
                new Report.Latency("get", 0, 0, Map.of()),
                new Report.Latency("commit", 2, 30, Map.of(Report.Quantile.P50, 15L)))),
        new Report.Storage(
            List.of(host), new Report.Retained(0, 0, 0), object, List.of(), null, null),
        new Report.Clients(List.of(), namespaces, tenants, List.of()));
  }

  private static Report.Namespace namespace(int id, String name) {
    return new Report.Namespace(
        id,
        name,
        null,
        "ff",
        4096,
        Map.of("host", 1L, "ssd", 2L),
        List.of(),
        Map.of("model", name));
  }

  private static JsonObject read(String json) {
    return Json.parse(json).asObject();
  }

  @Test
  void of_smallReport_hasAllFields() {
    JsonObject json =
        read(ReportJson.of(report(List.of(namespace(1, "m")), null, null), BYTES_MAX));
    assertEquals("abc", json.getString("generation", ""));
    assertEquals("node-0", json.getString("node", ""));
    assertEquals(3, json.get("counters").asObject().getLong("dropped", 0));
    assertEquals(Counter.values().length, json.get("counters").asObject().size());
    assertTrue(json.get("latency").asObject().get("get").asObject().get("p50_ns").isNull());
    assertEquals(15, json.get("latency").asObject().get("commit").asObject().getLong("p50_ns", 0));
    assertEquals("host", json.get("tiers").asArray().get(0).asObject().getString("tier", ""));
    assertEquals(1, json.getInt("namespaces_total", 0));
    assertFalse(json.names().contains("object"));
    assertFalse(json.names().contains("events"));
    assertFalse(json.names().contains("tenants"));
    assertFalse(json.names().contains("numa"));
    assertEquals(0, json.get("troubles").asArray().size());
  }

  @Test
  void of_slabsOnNumaNodes_saysWhatIsWhere() {
    BitSet cpus = new BitSet();
    cpus.set(4, 8);
    NumaReport numa =
        new NumaReport(
            List.of(
                new NumaReport.Node(
                    new NumaPlan.Home(1, cpus, 1 << 30, 2, List.of("0000:1a:00.0")), 200, 150)),
            50,
            "refused");
    Report plain = report(List.of(), null, null);
    Report.Storage storage =
        new Report.Storage(
            plain.storage().tiers(), new Report.Retained(0, 0, 0), null, List.of(), numa, null);
    JsonObject json =
        read(ReportJson.of(
                new Report(
                    plain.identity(), plain.health(), plain.work(), storage, plain.clients()),
                BYTES_MAX))
            .get("numa")
            .asObject();
    assertEquals(
        "{\"node\":1,\"slab_bytes\":200,\"taken_bytes\":150,\"processors\":4,"
            + "\"gpus\":[\"0000:1a:00.0\"]}",
        json.get("nodes").asArray().get(0).toString());
    assertEquals(50, json.getLong("elsewhere_bytes", 0));
    assertEquals("refused", json.getString("trouble", ""));
  }

  @Test
  void of_moreNamespacesThanFit_isCutBelowTheLimit() {
    List<Report.Namespace> namespaces = new ArrayList<>();
    for (int i = 0; i < 1000; i++) {
      namespaces.add(namespace(i, "model \u6a21 " + i));
    }
    String text = ReportJson.of(report(namespaces, List.of(), null), BYTES_MAX);
    assertTrue(text.length() <= BYTES_MAX, text.length() + " characters");
    assertTrue(text.chars().allMatch(c -> c <= '~'));
    JsonObject json = read(text);
    int shown = json.get("namespaces").asArray().size();
    assertTrue(shown > 100 && shown < 1000, shown + " namespaces");
    assertEquals(1000, json.getInt("namespaces_total", 0));
    assertEquals(
        "model \u6a21 0", json.get("namespaces").asArray().get(0).asObject().getString("name", ""));
    assertEquals(0, json.getInt("tenants_total", -1));
  }

  @Test
  void of_objectTier_hasItsFieldsAndTroubles() {
    Report.ObjectTier object =
        new Report.ObjectTier(
            "all",
            Map.of(
                "takes_loads", false, "load_trouble", "refused", "keys_known", 3L, "store", "s3"));
    HealthReport.Trouble silent =
        new HealthReport.Trouble("object/load", "it does not answer: refused", "look at the store");
    JsonObject json = read(ReportJson.of(report(List.of(), null, object, silent), BYTES_MAX));
    JsonObject shown = json.get("object").asObject();
    assertEquals("all", shown.getString("admission", ""));
    assertFalse(shown.getBoolean("takes_loads", true));
    assertEquals(3, shown.getInt("keys_known", 0));
    JsonObject trouble = json.get("troubles").asArray().get(0).asObject();
    assertEquals("object/load", trouble.getString("part", ""));
    assertTrue(trouble.getString("reason", "").endsWith("refused"));
    assertEquals("look at the store", trouble.getString("cure", ""));
  }
}
