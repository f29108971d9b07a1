package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.LoadReport;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import io.kvtier.tiers.transfer.Checksums;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.junit.jupiter.api.Test;

/** REPORT_LOADS, and the counts of gets beside it. */
final class LoadReportsTest {
  private static Status ask(IndexHarness.Client client, Verb verb, int namespace, long key)
      throws ProtocolViolation {
    client.sendKey(verb, namespace, key);
    return client.await().first();
  }

  private static Status report(IndexHarness.Client client, int namespace, LoadReport report)
      throws ProtocolViolation {
    byte[] bytes = report.bytes();
    long[] words = new long[bytes.length / Long.BYTES];
    MemorySegment.ofArray(words).copyFrom(MemorySegment.ofArray(bytes));
    client.send(Verb.REPORT_LOADS, namespace, 0, bytes.length, words);
    return client.work().status();
  }

  private static JsonObject only(JsonArray accounts) {
    assertEquals(1, accounts.size());
    return accounts.getJsonObject(0);
  }

  @Test
  void report_ofBlocksThatWereGot_isInTheStatistics() throws Exception {
    try (IndexHarness harness = new IndexHarness(8, IndexHarness.SLOT_BYTES)) {
      IndexHarness.Client client = harness.open(1 << 20);
      int model = client.registered("model");
      client.putIn(model, 1);
      assertEquals(Status.OK, ask(client, Verb.ACQUIRE, model, 1));
      assertEquals(Status.MISS, ask(client, Verb.ACQUIRE, model, 2));
      assertEquals(Status.OK, report(client, model, new LoadReport(1, 16, 9_000, 1_000)));

      JsonObject stats = new JsonObject(client.stats());
      JsonObject account = only(stats.getJsonArray("accounts"));
      assertEquals(
          new JsonObject()
              .put("namespace", "model")
              .put("hits", 1)
              .put("misses", 1)
              .put("saved_tokens", 16)
              .put("saved_prefill_ns", 9_000)
              .put("spent_load_ns", 1_000),
          account);
      assertEquals(16, stats.getJsonObject("counters").getInteger("saved_tokens"));
    }
  }

  @Test
  void report_thatCannotBeTrue_isRefused_andCountsNowhere() throws Exception {
    try (IndexHarness harness = new IndexHarness(8, IndexHarness.SLOT_BYTES)) {
      IndexHarness.Client client = harness.open(1 << 20);
      int model = client.registered("model");
      client.putIn(model, 1);
      assertEquals(Status.OK, ask(client, Verb.ACQUIRE, model, 1));
      for (LoadReport wrong :
          List.of(
              new LoadReport(2, 1, 1, 1),
              new LoadReport(1, -1, 0, 0),
              new LoadReport(1, 1, Long.MIN_VALUE, 0),
              new LoadReport(1, 1, 0, Long.MAX_VALUE),
              new LoadReport(-1, 1, 0, 0))) {
        assertEquals(Status.INVALID_ARGUMENT, report(client, model, wrong), wrong.toString());
      }
      assertEquals(0, harness.counters.get(Counter.SAVED_TOKENS));
      assertEquals(0, harness.counters.get(Counter.SPENT_LOAD_NS));
      assertEquals(Status.OK, report(client, model, new LoadReport(1, 1, 1, 1)));
    }
  }

  @Test
  void report_ofAnotherLength_endsTheSession() throws Exception {
    try (IndexHarness harness = new IndexHarness(8, IndexHarness.SLOT_BYTES)) {
      IndexHarness.Client client = harness.open(1 << 20);
      int model = client.registered("model");
      client.send(Verb.REPORT_LOADS, model, 0, 8, 1);
      int ignored = harness.agent.doWork();
      assertEquals(Status.INVALID_ARGUMENT, client.endReason());
    }
  }

  @Test
  void report_inANamespaceThatIsNotRegistered_isRefused() throws Exception {
    try (IndexHarness harness = new IndexHarness(8, IndexHarness.SLOT_BYTES)) {
      int model = harness.open(1 << 20).registered("model");
      IndexHarness.Client other = harness.open(1 << 20);
      assertEquals(Status.NAMESPACE_UNKNOWN, report(other, model, new LoadReport(0, 0, 0, 1)));
    }
  }

  @Test
  void benchmark_changesNothing_thatIsCountedOfEngines() throws Exception {
    try (IndexHarness harness = new IndexHarness(8, IndexHarness.SLOT_BYTES)) {
      IndexHarness.Client client = harness.open(1 << 20);
      int bench = client.registered("kvtier-bench\npurpose=kvtier bench");
      client.putIn(bench, 1);
      assertEquals(Status.OK, ask(client, Verb.LOOKUP, bench, 1));
      assertEquals(Status.OK, ask(client, Verb.ACQUIRE, bench, 1));
      assertEquals(Status.MISS, ask(client, Verb.ACQUIRE, bench, 2));
      assertEquals(Status.OK, report(client, bench, new LoadReport(1, 16, 9_000, 1_000)));

      assertEquals(List.of(), new JsonObject(client.stats()).getJsonArray("accounts").getList());
      for (Counter counter :
          List.of(Counter.SAVED_TOKENS, Counter.SAVED_PREFILL_NS, Counter.SPENT_LOAD_NS)) {
        assertEquals(0, harness.counters.get(counter), counter.key());
      }
      assertEquals(
          harness.counters.get(Counter.LOOKUP_BLOCKS),
          harness.counters.get(Counter.TOOL_LOOKUP_BLOCKS));
      assertEquals(
          harness.counters.get(Counter.LOOKUP_HITS),
          harness.counters.get(Counter.TOOL_LOOKUP_HITS));
      assertEquals(
          harness.counters.get(Counter.HITS_HOST), harness.counters.get(Counter.TOOL_HITS));
      assertEquals(harness.counters.get(Counter.MISSES), harness.counters.get(Counter.TOOL_MISSES));
    }
  }

  @Test
  void tenants_seeTheirOwnAccountsOnly() throws Exception {
    try (IndexHarness harness =
        new IndexHarness(
            new IndexHarness.Settings(4, 8)
                .checksums(new IndexHarness.InlinePipeline(Checksums::run), IndexHarness.SLOT_BYTES)
                .tenants(
                    new TenantConfig("blue", List.of(), List.of(), 1, 0, 1),
                    new TenantConfig("green", List.of(), List.of(), 1, 0, 1)))) {
      IndexHarness.Client blue = harness.open(1 << 20, new Grant("blue", Role.WRITE, 1));
      IndexHarness.Client green = harness.open(1 << 20, new Grant("green", Role.WRITE, 2));
      int model = blue.registered("model");
      blue.putIn(model, 1);
      assertEquals(Status.OK, ask(blue, Verb.ACQUIRE, model, 1));
      assertEquals(Status.OK, report(blue, model, new LoadReport(1, 16, 9_000, 1_000)));
      assertEquals(Status.MISS, ask(green, Verb.ACQUIRE, green.registered("model"), 1));

      JsonObject ofBlue = new JsonObject(blue.stats());
      assertEquals(16, only(ofBlue.getJsonArray("accounts")).getInteger("saved_tokens"));
      assertEquals(16, only(ofBlue.getJsonArray("tenants")).getInteger("saved_tokens"));
      JsonObject ofGreen = new JsonObject(green.stats());
      assertEquals(1, only(ofGreen.getJsonArray("accounts")).getInteger("misses"));
      assertEquals(0, only(ofGreen.getJsonArray("tenants")).getInteger("saved_tokens"));
    }
  }
}
