package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import io.kvtier.daemon.index.report.StatsAnswers;
import io.kvtier.daemon.index.session.CompletionWriter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** The report of a daemon with more namespaces than a ring has room for. */
final class StatsReportTest {
  private static final int NAMESPACES = 1000;

  /** Namespaces in the order of their numbers; the last one alone has a block. */
  private static IndexHarness.Client filled(IndexHarness harness)
      throws IOException, ProtocolViolation {
    IndexHarness.Client client = harness.open(1 << 20);
    int last = 0;
    for (int i = 0; i < NAMESPACES; i++) {
      IndexHarness.Answer answer = client.registerAs("model-" + i, IndexHarness.SLOT_BYTES);
      assertEquals(Status.OK, answer.status());
      last = (int) answer.value();
    }
    client.sendKey(Verb.RESERVE, last, 1);
    client.sendIds(Verb.COMMIT, 0, 1, client.await().ids().getFirst());
    assertEquals(Status.OK, client.await().first());
    return client;
  }

  private static JsonObject first(JsonObject report) {
    return report.getJsonArray("namespaces").getJsonObject(0);
  }

  @Test
  void report_forOperators_hasAllNamespaces_thoseWithMostBytesFirst() throws Exception {
    try (IndexHarness harness = new IndexHarness(8, IndexHarness.SLOT_BYTES)) {
      IndexHarness.Client client = filled(harness);
      List<String> told = new ArrayList<>();
      assertTrue(harness.agent.offerReport(made -> told.add(made.get())));
      int ignored = harness.agent.doWork();
      JsonObject report = new JsonObject(told.getFirst());

      assertEquals(NAMESPACES, report.getInteger("namespaces_total"));
      assertEquals(NAMESPACES, report.getJsonArray("namespaces").size());
      assertEquals("model-" + (NAMESPACES - 1), first(report).getString("name"));
      assertEquals(1, first(report).getInteger("host_blocks"));
      assertEquals(1, report.getInteger("sessions_total"));
      harness.close(client);
    }
  }

  @Test
  void report_ofMoreNamespacesThanItHasRoomFor_isCutAndSaysOfHowMany() throws Exception {
    try (IndexHarness harness = new IndexHarness(8, IndexHarness.SLOT_BYTES)) {
      IndexHarness.Client client = harness.open(1 << 20);
      for (int i = 0; i < 4 * NAMESPACES; i++) {
        assertEquals(Status.OK, client.registerAs("model-" + i, IndexHarness.SLOT_BYTES).status());
      }
      List<String> told = new ArrayList<>();
      assertTrue(harness.agent.offerReport(made -> told.add(made.get())));
      int ignored = harness.agent.doWork();
      JsonObject report = new JsonObject(told.getFirst());

      assertTrue(told.getFirst().length() <= IndexAgent.REPORT_BYTES_MAX);
      assertTrue(report.getJsonArray("namespaces").size() >= NAMESPACES);
      assertEquals(4 * NAMESPACES, report.getInteger("namespaces_total"));
      assertEquals(1, report.getJsonArray("sessions").size());
    }
  }

  @Test
  void report_namesBeyondAscii_areWhole() throws Exception {
    try (IndexHarness harness = new IndexHarness(8, IndexHarness.SLOT_BYTES)) {
      IndexHarness.Client client = harness.open(1 << 20);
      String name = "\u6a21\u578b\ud83d\ude00".repeat(50) + "\u007f\"-";
      for (int i = 0; i < 200; i++) {
        IndexHarness.Answer answer = client.registerAs(name + i, IndexHarness.SLOT_BYTES);
        assertEquals(Status.OK, answer.status());
      }
      JsonObject report = new JsonObject(client.stats());
      assertTrue(first(report).getString("name").startsWith(name));
      assertEquals(200, report.getInteger("namespaces_total"));
      assertEquals(1, report.getInteger("sessions_total"));
    }
  }

  @Test
  void report_forAClient_isCutAndSaysOfHowMany() throws Exception {
    try (IndexHarness harness = new IndexHarness(8, IndexHarness.SLOT_BYTES)) {
      IndexHarness.Client client = filled(harness);
      String text = client.stats();
      JsonObject report = new JsonObject(text);
      JsonArray namespaces = report.getJsonArray("namespaces");

      assertTrue(text.length() <= CompletionWriter.STATS_BYTES_MAX, text.length() + " characters");
      assertTrue(namespaces.size() < NAMESPACES, namespaces.size() + " namespaces");
      assertEquals(NAMESPACES, report.getInteger("namespaces_total"));
      assertEquals("model-" + (NAMESPACES - 1), first(report).getString("name"));
      assertEquals(
          namespaces.size(),
          IntStream.range(0, namespaces.size())
              .mapToObj(i -> namespaces.getJsonObject(i).getString("name"))
              .distinct()
              .count());
      assertEquals(1, report.getJsonArray("sessions").size());
      harness.close(client);
    }
  }

  @Test
  void stats_madeByAnExecutor_isAnsweredWhenItIsMade() throws Exception {
    try (IndexHarness harness = new IndexHarness(8, IndexHarness.SLOT_BYTES)) {
      List<Runnable> tasks = new ArrayList<>();
      harness.agent.makeReportsWith(tasks::add);
      IndexHarness.Client client = harness.open(1 << 20);
      client.sendFlags(Verb.STATS, 0, 0);
      int ignored = harness.agent.doWork();
      assertFalse(client.hasAnswer());
      client.sendFlags(Verb.PING, 0, 0);
      assertEquals(Verb.PING, client.work().verb());
      tasks.removeFirst().run();
      IndexHarness.Answer answer = client.work();
      assertEquals(Verb.STATS, answer.verb());
      assertEquals(Status.OK, answer.status());
      assertEquals(0, client.session.reservedCompletionBytes);
      harness.close(client);
    }
  }

  @Test
  void stats_moreThanTheExecutorMayHold_areAnsweredAtOnce() throws Exception {
    try (IndexHarness harness = new IndexHarness(8, IndexHarness.SLOT_BYTES)) {
      List<Runnable> tasks = new ArrayList<>();
      harness.agent.makeReportsWith(tasks::add);
      IndexHarness.Client ended = harness.open(1 << 20);
      ended.sendFlags(Verb.STATS, 0, 0);
      assertTrue(harness.agent.doWork() > 0);
      IndexHarness.Client waiting = harness.open(1 << 20);
      for (int i = 1; i < StatsAnswers.WAITING_MAX; i++) {
        waiting.sendFlags(Verb.STATS, 0, 0);
      }
      assertTrue(harness.agent.doWork() > 0);
      IndexHarness.Client late = harness.open(1 << 20);
      late.sendFlags(Verb.STATS, 0, 0);
      assertEquals(Verb.STATS, late.work().verb());
      assertEquals(StatsAnswers.WAITING_MAX, tasks.size());

      harness.close(ended);
      tasks.removeFirst().run();
      assertTrue(harness.agent.doWork() > 0);
      late.sendFlags(Verb.STATS, 0, 0);
      assertTrue(harness.agent.doWork() > 0);
      assertFalse(late.hasAnswer(), "an answer to an ended session leaves its place");
      tasks.forEach(Runnable::run);
      for (int i = 1; i < StatsAnswers.WAITING_MAX; i++) {
        assertEquals(Verb.STATS, waiting.work().verb());
      }
      assertEquals(Verb.STATS, late.work().verb());
      harness.close(waiting);
      harness.close(late);
    }
  }

  @Test
  void stats_sessionEndsBeforeItIsMade_isDropped() throws Exception {
    try (IndexHarness harness = new IndexHarness(8, IndexHarness.SLOT_BYTES)) {
      List<Runnable> tasks = new ArrayList<>();
      harness.agent.makeReportsWith(tasks::add);
      IndexHarness.Client client = harness.open(1 << 20);
      client.sendFlags(Verb.STATS, 0, 0);
      int ignored = harness.agent.doWork();
      harness.close(client);
      tasks.removeFirst().run();
      assertTrue(harness.agent.hasWork());
      assertTrue(harness.agent.doWork() > 0);
      harness.agent.checkInvariants();
    }
  }

  private static JsonObject host(String report) {
    return new JsonObject(report).getJsonArray("tiers").getJsonObject(0);
  }

  /** More than there is room for in an answer. */
  @Test
  void report_ofManySizes_hasTheAskersOwn_andNoMoreThanThereIsRoomFor() throws Exception {
    int tenants = 40;
    int sizes = 64;
    TenantConfig[] configs =
        IntStream.range(0, tenants)
            .mapToObj(i -> new TenantConfig("t" + i, List.of(), List.of(), 1, 0, 1))
            .toArray(TenantConfig[]::new);
    try (IndexHarness harness =
        new IndexHarness(new IndexHarness.Settings(tenants, sizes).tenants(configs))) {
      String seen = "";
      for (int tenant = 1; tenant <= tenants; tenant++) {
        IndexHarness.Client client = harness.open(1 << 20, new Grant("t", Role.WRITE, tenant));
        for (int i = 1; i <= sizes; i++) {
          Status status = client.registerAs("m" + i, (long) i * IndexHarness.SLOT_BYTES).status();
          assertEquals(Status.OK, status);
        }
        seen = client.stats();
        harness.close(client);
      }
      assertEquals(sizes, host(seen).getInteger("size_classes_total"));
      assertEquals(sizes, host(seen).getJsonArray("size_classes").size());

      IndexHarness.Client operator = harness.open(1 << 20);
      String all = operator.stats();
      assertTrue(all.length() <= CompletionWriter.STATS_BYTES_MAX, all.length() + " characters");
      assertEquals(tenants * sizes, host(all).getInteger("size_classes_total"));
      assertTrue(host(all).getJsonArray("size_classes").size() > sizes);
    }
  }
}
