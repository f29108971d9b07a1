package io.kvtier.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.eclipsesource.json.Json;
import io.kvtier.client.TextResult;
import io.kvtier.protocol.Status;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** What is common to the commands that ask a daemon. */
final class DaemonCommandTest {
  private static final Report REPORT =
      new Report(
          Json.parse(
                  """
                  {"namespaces":[
                    {"name":"both","tenant":"blue","block_bytes":1},
                    {"name":"both","block_bytes":2},
                    {"name":"theirs","tenant":"blue","block_bytes":3}]}
                  """)
              .asObject());

  private static String withoutTierBelow(@Nullable String namespaceName, String report) {
    return FlushingCommand.withoutTierBelow(
        new Report(Json.parse(report).asObject()), namespaceName);
  }

  @Test
  void flush_memoryAlone_isNotBelow() {
    String full =
        """
        {"tiers":[{"tier":"host","slots_resident":3}],
         "namespaces":[{"name":"full","host_blocks":3},{"name":"empty","host_blocks":0}]}
        """;
    assertTrue(withoutTierBelow(null, full).contains("ssd.bytes is 0"));
    assertTrue(withoutTierBelow("full", full).contains("ssd.bytes is 0"));
    assertEquals("", withoutTierBelow("empty", full));
    assertEquals("", withoutTierBelow(null, full.replace(":3", ":0")), "there is nothing");
    assertEquals(
        "", withoutTierBelow(null, full.replace("{\"tiers\"", "{\"object\":{},\"tiers\"")));
    assertEquals("", withoutTierBelow(null, full.replace("}],", "},{\"tier\":\"ssd\"}],")));
  }

  @Test
  void flush_tenantsWithoutSsd_areNamed() {
    String shared =
        """
        {"tiers":[{"tier":"host","slots_resident":3},{"tier":"ssd"}],
         "namespaces":[{"name":"mine","host_blocks":1}],
         "tenants":[{"name":"","host_bytes_used":1,"ssd_bytes_capacity":9},
           {"name":"blue","host_bytes_used":1,"ssd_bytes_capacity":0},
           {"name":"red","host_bytes_used":0,"ssd_bytes_capacity":0}]}
        """;
    String words = withoutTierBelow(null, shared);
    assertTrue(words.endsWith("for the blocks of tenant 'blue'"), words);
    assertEquals("", withoutTierBelow("mine", shared), "nobody's part has SSD");
    words = withoutTierBelow("mine", shared.replace("9}", "0}"));
    assertTrue(words.endsWith("for the blocks of no tenant"), words);
  }

  @Test
  void hits_blocksOfOtherGpus_areAmongThem() {
    Map<String, Long> counters =
        Map.of("hits_host", 1L, "hits_ssd", 2L, "hits_object", 4L, "hits_gpu", 8L, "misses", 16L);
    assertEquals(15, Report.hits(counters));
  }

  @Test
  void known_nameOfNobodyAndOfATenant_isNobodys() {
    assertEquals(2, DaemonCommand.known(REPORT, "both").blockBytes());
  }

  @Test
  void known_tenants_isRefused() {
    Failure failure =
        assertThrows(Failure.class, () -> DaemonCommand.known(REPORT, "theirs").blockBytes());
    assertEquals(Failure.NEGATIVE, failure.exitCode());
    assertTrue(String.valueOf(failure.getMessage()).contains("tenant 'blue'"));
  }

  @Test
  void known_unknown_isRefusedWithThoseThatThereAre() {
    Failure failure =
        assertThrows(Failure.class, () -> DaemonCommand.known(REPORT, "none").blockBytes());
    assertTrue(String.valueOf(failure.getMessage()).contains("it knows both, both, theirs"));
  }

  @Test
  void nodesFind_withoutAnAnswerInTime_doesNotSayThatNoNodeHasTheBlock() {
    TextResult pending = new TextResult(Status.PENDING, "other nodes are being asked");
    Failure failed = assertThrows(Failure.class, () -> NodesFindCommand.found(pending));
    assertEquals(Failure.NO_DAEMON, failed.exitCode());
    assertEquals("{}", NodesFindCommand.found(new TextResult(Status.OK, "{}")));
  }
}
