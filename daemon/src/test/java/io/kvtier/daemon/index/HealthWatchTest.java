package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.index.report.HealthReport;
import io.kvtier.daemon.index.report.HealthWatch;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Test;

/** For how long refused puts are a trouble, and how they are counted. */
class HealthWatchTest {
  private static final long SECOND_NS = 1_000_000_000L;

  /** The troubles that a check some time later finds. */
  private static List<HealthReport.Trouble> troublesAfter(IndexHarness harness, long ns) {
    harness.nowNs += ns;
    int ignored = harness.agent.doWork();
    return harness.agent.health().troubles();
  }

  private static void assertRefused(String blocks, List<HealthReport.Trouble> troubles) {
    assertEquals(
        List.of("puts/memory"), troubles.stream().map(HealthReport.Trouble::part).toList());
    String reason = troubles.getFirst().reason();
    assertTrue(reason.startsWith("puts of " + blocks + " were refused"), reason);
  }

  @Test
  void refusedPuts_areOneTrouble_untilAWhileAfterTheLast() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(8, 0)) {
      IndexHarness.Client client = harness.open();
      client.register();
      assertEquals(List.of(), troublesAfter(harness, SECOND_NS));
      client.sendKeys(Verb.RESERVE, 0, 10);
      assertEquals(Status.BUSY, client.work().last());
      assertRefused("2 blocks", troublesAfter(harness, SECOND_NS));
      client.sendKeys(Verb.RESERVE, 10, 3);
      assertRefused("2 blocks", troublesAfter(harness, SECOND_NS));
      assertRefused("5 blocks", troublesAfter(harness, 6 * SECOND_NS));
      assertTrue(client.hasAnswer());
      assertEquals(Status.DEADLINE, client.take().first());
      assertRefused("5 blocks", troublesAfter(harness, HealthWatch.RECENT_NS - 1));
      assertEquals(List.of(), troublesAfter(harness, SECOND_NS));
      client.sendKeys(Verb.RESERVE, 20, 1);
      assertEquals(List.of(), troublesAfter(harness, SECOND_NS));
      assertRefused("1 block", troublesAfter(harness, 6 * SECOND_NS));
    }
  }
}
