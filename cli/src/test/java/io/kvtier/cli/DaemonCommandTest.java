package io.kvtier.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.eclipsesource.json.Json;
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
}
