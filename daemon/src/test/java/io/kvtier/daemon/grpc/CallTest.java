package io.kvtier.daemon.grpc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.IndexHarness;
import io.kvtier.daemon.index.report.RequestTold;
import io.kvtier.daemon.index.session.IndexProcessor;
import io.kvtier.daemon.node.NodeFinder;
import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.linux.ThreadCpus;
import io.kvtier.protocol.v1.PingRequest;
import io.kvtier.protocol.v1.PingResponse;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpClient;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpClientResponse;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.http.RequestOptions;
import io.vertx.core.http.StreamResetException;
import io.vertx.grpc.common.GrpcStatus;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Calls on real streams, with an index that works only when the test has it work. */
@Timeout(60)
final class CallTest {
  private static final String PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
  private static final int RING_BYTES = 4 << 20;
  private static final int QUEUE_MAX = 4096;

  private final Vertx vertx = Vertx.vertx(new VertxOptions().setEventLoopPoolSize(1));
  private final Context loop = vertx.getOrCreateContext();
  private final AtomicInteger ended = new AtomicInteger();
  private int indexCpu = -1;
  private final IndexProcessor processor =
      new IndexProcessor(
          MemorySegment.ofArray(new long[DaemonRegionDescriptor.REGION_BYTES / Long.BYTES]),
          () -> indexCpu);
  private IndexHarness harness;
  private IndexGateway gateway;
  private HttpClient client;

  @BeforeEach
  void start() throws IOException {
    harness = new IndexHarness(1, 0);
    gateway =
        new IndexGateway(
            harness.agent(), () -> {}, processor, harness.requests(), 1, Grant.NO_TENANT, loop);
    client =
        vertx.createHttpClient(
            new HttpClientOptions()
                .setProtocolVersion(HttpVersion.HTTP_2)
                .setHttp2ClearTextUpgrade(false));
  }

  @AfterEach
  void stop() throws Exception {
    vertx.close().toCompletionStage().toCompletableFuture().get(60, TimeUnit.SECONDS);
    Thread closing = Thread.ofPlatform().start(gateway::close);
    workUntil(() -> !closing.isAlive());
    harness.close();
  }

  private void workUntil(BooleanSupplier condition) {
    while (!condition.getAsBoolean()) {
      int ignored = harness.agent().doWork();
      Thread.onSpinWait();
    }
  }

  /** What is told, without who asked. */
  private List<String> told() {
    List<String> all = new ArrayList<>();
    for (RequestTold one = harness.requests().told().poll();
        one != null;
        one = harness.requests().told().poll()) {
      RequestTold.Refusal refusal = assertInstanceOf(RequestTold.Refusal.class, one);
      assertEquals(PARENT.split("-", -1)[1], TraceContext.traceId(one.traceHigh(), one.traceLow()));
      all.add(refusal.what());
    }
    return all;
  }

  /** A server whose only method does that; completes with what comes of a call. */
  private Future<Buffer> call(UnaryCall.Method<PingRequest, PingResponse> method) {
    Namespaces namespaces = new Namespaces();
    Call.Environment environment =
        new Call.Environment(
            gateway,
            harness.requests(),
            namespaces,
            slab -> {
              throw new AssertionError("no bytes here");
            },
            new NodeFinder("", "", null, harness.agent(), () -> {}),
            Runnable::run,
            4096,
            TimeUnit.HOURS.toNanos(1),
            new Call.Watch() {
              @Override
              public void heard(Call<?> call) {}

              @Override
              public void ended(Call<?> call) {
                ended.incrementAndGet();
              }

              @Override
              public void held(Call<?> call) {}
            });
    RemoteConnection connection = new RemoteConnection(gateway, namespaces, namespace -> {});
    Future<HttpServer> server =
        vertx
            .createHttpServer()
            .requestHandler(request -> {
              GrpcStream stream = new GrpcStream(request, 1 << 20, new HeadSpace());
              new UnaryCall<>(
                      environment,
                      connection,
                      stream,
                      Role.WRITE,
                      PingRequest.parser(),
                      outcome -> PingResponse.newBuilder().setOutcome(outcome).build(),
                      method)
                  .start();
            })
            .listen(0, "127.0.0.1");
    return server
        .compose(listening ->
            client.request(
                new RequestOptions()
                    .setMethod(HttpMethod.POST)
                    .setHost("127.0.0.1")
                    .setPort(listening.actualPort())
                    .setURI("/")
                    .putHeader("traceparent", PARENT)))
        .compose(request -> {
          // Before it is sent: an answer of which nobody wants the body yet may end unheard.
          Future<Buffer> body = request.response().compose(HttpClientResponse::body);
          var _ = request.send(Buffer.buffer(new byte[5]));
          return body;
        });
  }

  private static IndexRequest ping(long deadlineNs) {
    return IndexRequest.plain(Verb.PING, 0, 0, deadlineNs);
  }

  @Test
  void answer_thatIsNotTaken_endsItsCall() {
    Future<Buffer> answer =
        call((call, message) ->
            call.ask(
                ping(0),
                ignored -> {
                  throw new IllegalStateException("as the test has it");
                }));
    workUntil(answer::isComplete);
    StreamResetException reset = assertInstanceOf(StreamResetException.class, answer.cause());
    assertEquals(8, reset.getCode());
    assertEquals(1, ended.get());
  }

  @Test
  void loopThatSleepsOnTheIndexsProcessor_needsIt_whenTheIndexWakesIt() throws IOException {
    int cpu = ThreadCpus.get().nextSetBit(0);
    loop.runOnContext(v -> {
      try {
        ThreadCpus.set(BitSet.valueOf(new long[] {1L << cpu}));
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    });
    // Behind the first answer, the loop sleeps where it was put.
    ask();
    indexCpu = cpu;
    ask();
    assertTrue(processor.rest());
    indexCpu = cpu + 1;
    ask();
    assertFalse(processor.rest());
  }

  private void ask() {
    AtomicInteger answered = new AtomicInteger();
    loop.runOnContext(v -> gateway.submit(ping(0), answer -> answered.incrementAndGet()));
    workUntil(() -> answered.get() > 0);
    AtomicInteger idle = new AtomicInteger();
    loop.runOnContext(v -> idle.incrementAndGet());
    workUntil(() -> idle.get() > 0);
  }

  @Test
  void fail_ofACallThatIsOver_isToldToNobody() {
    Future<Buffer> answer =
        call((call, message) -> {
          call.cutOff();
          call.onUnreadable(GrpcStatus.INTERNAL, "the last message was cut short");
        });
    workUntil(answer::isComplete);
    assertEquals(List.of(), told());
  }

  @Test
  void fail_ofACall_isTold() {
    Future<Buffer> answer =
        call((call, message) -> call.onUnreadable(GrpcStatus.INTERNAL, "cut short"));
    workUntil(answer::isComplete);
    assertNull(answer.cause());
    assertEquals(List.of("INTERNAL: cut short"), told());
  }

  @Test
  void submit_whatTheIndexTakesNot_isTold() {
    TraceContext context = TraceContext.parse(PARENT);
    List<IndexAnswer> answers = new ArrayList<>();
    AtomicInteger answered = new AtomicInteger();
    int inRing = RING_BYTES / ping(1).recordBytes(context);
    loop.runOnContext(v -> {
      for (int i = 0; i < inRing + QUEUE_MAX + 5; i++) {
        // The deadline is over before any is taken.
        var _ =
            gateway.submit(
                ping(1),
                context,
                answer -> {
                  answers.add(answer);
                  answered.incrementAndGet();
                });
      }
    });
    while (answered.get() < QUEUE_MAX + 5) {
      Thread.onSpinWait();
    }
    List<String> told = told();
    assertEquals(5, told.stream().filter(text -> text.endsWith("wait for the index")).count());
    assertEquals(
        QUEUE_MAX,
        told.stream()
            .filter(text -> text.equals("BUSY: the index took no request before the deadline"))
            .count());
    assertTrue(answers.size() >= told.size());
  }
}
