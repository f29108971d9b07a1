package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.index.core.OperatorAnswer;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Status;
import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What operators are answered. */
class AdminTest {
  private static OperatorAnswer ask(IndexHarness harness, String command) {
    CompletableFuture<OperatorAnswer> answer = harness.agent.command(command);
    int ignored = harness.agent.doWork();
    assertTrue(answer.isDone(), command);
    return answer.join();
  }

  /** Asks until it is no longer pending. */
  private static OperatorAnswer await(IndexHarness harness, String command) {
    long end = System.nanoTime() + 60_000_000_000L;
    OperatorAnswer answer = ask(harness, command);
    while (answer.status() == Status.PENDING && System.nanoTime() < end) {
      LockSupport.parkNanos(1_000_000);
      answer = ask(harness, command);
    }
    return answer;
  }

  @Test
  void sessionEnd_endsThatSession_andCountsNoWrong() throws Exception {
    try (IndexHarness harness = new IndexHarness(8, 0)) {
      IndexHarness.Client stays = harness.open();
      IndexHarness.Client hangs = harness.open();
      long id = hangs.session.id();
      OperatorAnswer answer = ask(harness, "session end " + id);
      assertEquals(Status.OK, answer.status(), answer.text());
      assertTrue(answer.text().startsWith("session " + id + " of process 1 has ended"));
      assertEquals(Status.SESSION_ENDED, hangs.endReason());
      assertEquals(Status.OK, stays.endReason());
      assertEquals(0, harness.counters.get(Counter.SESSIONS_ENDED_BAD));
      assertEquals(Status.MISS, ask(harness, "session end " + id).status(), "it has ended already");
      assertEquals(Status.MISS, ask(harness, "session end 77").status());
      for (String wrong : new String[] {"0", "-1", "one"}) {
        assertEquals(Status.INVALID_ARGUMENT, ask(harness, "session end " + wrong).status());
      }
    }
  }

  @Test
  void trace_tellsHowItsFileIs(@TempDir Path folder) throws Exception {
    Path file = folder.resolve("t r.gz");
    try (IndexHarness harness = new IndexHarness(8, 0)) {
      assertEquals(Status.MISS, ask(harness, "trace status").status());
      assertEquals(Status.MISS, ask(harness, "trace stop").status());
      var _ = ask(harness, "trace record 100 " + file);
      OperatorAnswer begun = await(harness, "trace status");
      assertEquals(Status.OK, begun.status(), begun.text());
      assertTrue(begun.text().startsWith("recording lookups to '" + file), begun.text());
      assertEquals(Status.BUSY, ask(harness, "trace record 100 " + file + "2").status());

      IndexHarness.Client client = harness.open();
      client.register();
      var _ = client.lookup(1, 2, 3);
      OperatorAnswer stopped = await(harness, "trace stop");
      assertEquals(Status.OK, stopped.status(), stopped.text());
      assertTrue(stopped.text().startsWith("1 lookup of 3 blocks"), stopped.text());
      assertEquals(Status.MISS, ask(harness, "trace stop").status(), "it is told once");

      var _ = ask(harness, "trace record 100 " + file);
      OperatorAnswer there = await(harness, "trace status");
      assertEquals(Status.DENIED, there.status(), there.text());
      var _ = ask(harness, "trace record 100 " + folder.resolve("none/x.gz"));
      OperatorAnswer nowhere = await(harness, "trace status");
      assertEquals(Status.IO_ERROR, nowhere.status());
      assertTrue(nowhere.text().contains("its folder does not exist"), nowhere.text());
    }
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
