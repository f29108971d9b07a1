package io.kvtier.daemon.http;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.index.report.HealthReport;
import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.linux.Words;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.json.JsonObject;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** How the index is asked, by an index that answers when the test says so. */
@Timeout(120)
final class IndexReportsTest {
  private final Vertx vertx = Vertx.vertx();
  private final Context loop = vertx.getOrCreateContext();
  private final BlockingQueue<Consumer<Supplier<String>>> questions = new LinkedBlockingQueue<>();
  private final IndexReports reports = new IndexReports(questions::add, () -> {}, loop);

  /** The same, where a slow machine must not make a difference. */
  private final IndexReports patient =
      new IndexReports(questions::add, () -> {}, loop, 600_000_000_000L, 60_000);

  @AfterEach
  void stop() throws Exception {
    vertx.close().toCompletionStage().toCompletableFuture().get(60, TimeUnit.SECONDS);
  }

  private <T> T onLoop(Supplier<Future<T>> asked) throws Exception {
    return begin(asked).toCompletionStage().toCompletableFuture().get(30, TimeUnit.SECONDS);
  }

  private <T> Future<T> begin(Supplier<Future<T>> asked) {
    return Future.<Future<T>>future(
            promise -> loop.runOnContext(v -> promise.complete(asked.get())))
        .compose(future -> future);
  }

  private Consumer<Supplier<String>> question() throws InterruptedException {
    return Objects.requireNonNull(questions.poll(30, TimeUnit.SECONDS), "the index was not asked");
  }

  private static String failureOf(Future<?> future) throws Exception {
    try {
      future.toCompletionStage().toCompletableFuture().get(30, TimeUnit.SECONDS);
      throw new AssertionError("it was answered");
    } catch (ExecutionException e) {
      return String.valueOf(e.getMessage());
    } catch (TimeoutException e) {
      throw new AssertionError("neither answered nor refused", e);
    }
  }

  @Test
  void fresh_ofIndexThatDoesNotAnswer_failsAndAsksNoSecondTime() throws Exception {
    String first = failureOf(begin(reports::fresh));
    String second = failureOf(begin(reports::fresh));

    assertTrue(first.contains("the index has not answered"), first);
    assertEquals(first, second);
    assertEquals(1, questions.size());
  }

  @Test
  void fresh_afterALateAnswer_isAnsweredAgain() throws Exception {
    IndexReports late = new IndexReports(questions::add, () -> {}, loop, 600_000_000_000L, 50);
    String ignored = failureOf(begin(late::fresh));
    question().accept(() -> "{\"n\":1}");

    JsonObject report = onLoop(late::fresh).json();

    assertEquals(1, report.getInteger("n"), ignored);
  }

  @Test
  void fresh_reportThatIsNoJson_failsAtOnceAndTheNextIsAsked() throws Exception {
    Future<?> asked = begin(patient::fresh);
    question().accept(() -> "{\"n\":");

    String failure = failureOf(asked);

    assertTrue(failure.contains("is no JSON"), failure);
    Future<IndexReports.Report> again = begin(patient::fresh);
    question().accept(() -> "{\"n\":2}");
    again.toCompletionStage().toCompletableFuture().get(30, TimeUnit.SECONDS);
  }

  @Test
  void readyz_ofSilentIndex_is503WithTheReason() throws Exception {
    try (Arena arena = Arena.ofShared()) {
      Health health =
          new Health(region(arena, System.nanoTime()), reports, () -> HealthReport.WELL);

      Answer answer = onLoop(() -> health.ready(false));

      assertEquals(503, answer.status());
      JsonObject body = answer.body().toJsonObject();
      assertFalse(body.getBoolean("ready"));
      assertTrue(body.getString("reason").contains("not answered"), body.encode());
    }
  }

  private static final HealthReport IN_TROUBLE =
      new HealthReport(
          List.of(
              new HealthReport.Trouble("ssd/1", "the device is fenced", "dmesg"),
              new HealthReport.Trouble("object/load", "connection refused", "look at the store")));

  /** The answer of a daemon with trouble in each of its parts. */
  private String readyInTrouble(boolean withReasons) throws Exception {
    try (Arena arena = Arena.ofShared()) {
      Health health = new Health(region(arena, System.nanoTime()), patient, () -> IN_TROUBLE);
      Future<Answer> asked = begin(() -> health.ready(withReasons));
      question().accept(() -> "{}");
      Answer answer = asked.toCompletionStage().toCompletableFuture().get(30, TimeUnit.SECONDS);
      assertEquals(200, answer.status());
      return answer.body().toString();
    }
  }

  @Test
  void readyz_withAFencedDevice_isReadyAndDegraded() throws Exception {
    assertEquals(
        """
        {"ready":true,"degraded":true,"troubles":[\
        {"part":"ssd/1","reason":"the device is fenced","cure":"dmesg"},\
        {"part":"object/load","reason":"connection refused","cure":"look at the store"}]}\
        """,
        readyInTrouble(true));
  }

  @Test
  void readyz_forAnybody_namesThePartsAlone() throws Exception {
    assertEquals(
        """
        {"ready":true,"degraded":true,"troubles":[\
        {"part":"ssd/1"},{"part":"object/load"}]}\
        """,
        readyInTrouble(false));
  }

  @Test
  void healthz_inTrouble_isLiveAndDegraded_namesThePartsAlone() {
    try (Arena arena = Arena.ofShared()) {
      Health health = new Health(region(arena, System.nanoTime()), reports, () -> IN_TROUBLE);

      Answer answer = health.live(false);

      assertEquals(200, answer.status());
      JsonObject body = answer.body().toJsonObject();
      assertTrue(body.getBoolean("degraded"));
      assertEquals(
          "[{\"part\":\"ssd/1\"},{\"part\":\"object/load\"}]",
          body.getJsonArray("troubles").encode());
    }
  }

  @Test
  void healthz_ofIndexThatNoLongerLooksRound_is503WithTheReason() {
    try (Arena arena = Arena.ofShared()) {
      Health health =
          new Health(
              region(arena, System.nanoTime() - 60_000_000_000L), reports, () -> HealthReport.WELL);

      Answer answer = health.live(true);

      assertEquals(503, answer.status());
      assertTrue(
          answer.body().toString().contains("no sign of life from the index for 6"),
          answer.body()::toString);
    }
  }

  private static MemorySegment region(Arena arena, long heartbeatNs) {
    MemorySegment region = arena.allocate(DaemonRegionDescriptor.REGION_BYTES, 4096);
    Words.putLongRelease(region, DaemonRegionDescriptor.HEARTBEAT_OFFSET, heartbeatNs);
    return region;
  }
}
