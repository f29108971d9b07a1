package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Status;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

/** What operators are answered. */
class AdminTest {
  private static OperatorAnswer ask(IndexHarness harness, String command) {
    CompletableFuture<OperatorAnswer> answer = harness.agent.command(command);
    int ignored = harness.agent.doWork();
    assertTrue(answer.isDone(), command);
    return answer.join();
  }

  @Test
  void command_thatThereIsNot_isAnsweredWithAllThatThereAre() throws IOException {
    try (IndexHarness harness = new IndexHarness(8, 0)) {
      harness.agent.extend("threads", words -> OperatorAnswer.done(""));
      harness.agent.extend("reload", words -> OperatorAnswer.done(""));
      OperatorAnswer answer = ask(harness, "make coffee");
      assertEquals(Status.INVALID_ARGUMENT, answer.status());
      assertTrue(answer.text().contains("policy TIER NAME"), answer.text());
      assertTrue(answer.text().endsWith(", or reload, threads"), answer.text());
    }
  }
}
