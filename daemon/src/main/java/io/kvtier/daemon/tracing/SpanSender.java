package io.kvtier.daemon.tracing;

import io.kvtier.daemon.index.report.RequestTold;
import io.kvtier.protocol.Status;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.common.AttributesBuilder;
import io.opentelemetry.api.metrics.MeterProvider;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanBuilder;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.exporter.otlp.http.trace.OtlpHttpSpanExporter;
import io.opentelemetry.sdk.common.CompletableResultCode;
import io.opentelemetry.sdk.resources.Resource;
import io.opentelemetry.sdk.trace.IdGenerator;
import io.opentelemetry.sdk.trace.ReadWriteSpan;
import io.opentelemetry.sdk.trace.ReadableSpan;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.SpanProcessor;
import io.opentelemetry.sdk.trace.data.SpanData;
import io.opentelemetry.sdk.trace.samplers.Sampler;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.IntConsumer;
import java.util.logging.Level;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends spans to an OpenTelemetry collector, by OTLP over HTTP. Spans have the ids and the times
 * that the index gave them, because later spans can refer to earlier ones. Confined to one thread:
 * only that thread waits for a slow or absent collector.
 */
public final class SpanSender implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(SpanSender.class);

  /**
   * The library's logger is silenced, because this class logs failures itself. The field keeps the
   * logger from being collected.
   */
  private static final java.util.logging.Logger LIBRARY =
      java.util.logging.Logger.getLogger("io.opentelemetry");

  /**
   * Maximum time for a batch. A failed batch is not tried again, because the next one comes soon.
   */
  static final Duration TIMEOUT = Duration.ofSeconds(5);

  private static final long WAIT_S = 6;
  private static final HexFormat HEX = HexFormat.of();
  private static final AttributeKey<String> STATUS = AttributeKey.stringKey("kvtier.status");
  private static final AttributeKey<String> NAMESPACE = AttributeKey.stringKey("kvtier.namespace");
  private static final AttributeKey<Long> BLOCKS = AttributeKey.longKey("kvtier.blocks");
  private static final AttributeKey<Long> BLOCKS_OK = AttributeKey.longKey("kvtier.blocks_ok");
  private static final AttributeKey<Long> BYTES = AttributeKey.longKey("kvtier.bytes");
  private static final AttributeKey<Long> WAIT_NS = AttributeKey.longKey("kvtier.queue_wait_ns");

  private final String endpoint;
  private final IntConsumer lost;
  private final OtlpHttpSpanExporter exporter;
  private final SdkTracerProvider provider;
  private final Tracer tracer;
  private final List<SpanData> ended = new ArrayList<>();
  private String nextTraceId = "";
  private String nextSpanId = "";

  /**
   * Connects with the first spans.
   *
   * @param endpoint the whole URL, {@code http://HOST:4318/v1/traces} for example
   * @param node the name of this node; empty if it serves no others
   * @param lost told of the number of spans that were not sent
   */
  public SpanSender(String endpoint, String version, String node, IntConsumer lost) {
    this.endpoint = endpoint;
    this.lost = lost;
    LIBRARY.setLevel(Level.OFF);
    exporter =
        OtlpHttpSpanExporter.builder()
            .setEndpoint(endpoint)
            .setTimeout(TIMEOUT)
            .setConnectTimeout(TIMEOUT)
            .setRetryPolicy(null)
            .setMeterProvider(MeterProvider::noop)
            .build();
    provider =
        SdkTracerProvider.builder()
            .setSampler(Sampler.alwaysOn())
            .setIdGenerator(new ChosenIds())
            .setResource(Resource.create(resource(version, node)))
            .addSpanProcessor(new Gatherer())
            .build();
    tracer = provider.get("io.kvtier.daemon");
  }

  private static Attributes resource(String version, String node) {
    AttributesBuilder known =
        Attributes.builder()
            .put("service.name", "kvtierd")
            .put("service.version", version)
            .put("process.pid", ProcessHandle.current().pid());
    if (!node.isEmpty()) {
      known.put("service.instance.id", node);
    }
    return known.build();
  }

  /** Gives the next span the ids that the index chose. */
  private final class ChosenIds implements IdGenerator {
    @Override
    public String generateSpanId() {
      return nextSpanId;
    }

    @Override
    public String generateTraceId() {
      return nextTraceId;
    }
  }

  /** Collects ended spans for the exporter. */
  private final class Gatherer implements SpanProcessor {
    @Override
    public void onStart(Context parent, ReadWriteSpan span) {}

    @Override
    public boolean isStartRequired() {
      return false;
    }

    @Override
    public void onEnd(ReadableSpan span) {
      ended.add(span.toSpanData());
    }

    @Override
    public boolean isEndRequired() {
      return true;
    }
  }

  /** Counts spans that are never sent. */
  void lose(int spans) {
    lost.accept(spans);
  }

  /**
   * Sends spans, and waits for the collector's answer.
   *
   * @return false if the spans are lost
   */
  boolean send(List<RequestTold.Span> spans) {
    // The difference of the clocks is measured each time, because they drift.
    long epochNs = TimeUnit.MILLISECONDS.toNanos(System.currentTimeMillis()) - System.nanoTime();
    for (RequestTold.Span span : spans) {
      make(span, epochNs);
    }
    List<SpanData> made = List.copyOf(ended);
    ended.clear();
    CompletableResultCode sent = exporter.export(made).join(WAIT_S, TimeUnit.SECONDS);
    if (!sent.isSuccess()) {
      lost.accept(made.size());
      Throwable why = sent.getFailureThrowable();
      LOG.warn(
          "{} spans were not taken by {}: {}",
          made.size(),
          endpoint,
          why == null ? "no answer in time" : why.toString());
    }
    return sent.isSuccess();
  }

  private void make(RequestTold.Span span, long epochNs) {
    nextTraceId = HEX.toHexDigits(span.traceHigh()) + HEX.toHexDigits(span.traceLow());
    nextSpanId = HEX.toHexDigits(span.ids().spanId());
    SpanBuilder builder =
        tracer
            .spanBuilder(span.name())
            .setSpanKind(span.isRequest() ? SpanKind.SERVER : SpanKind.INTERNAL)
            .setStartTimestamp(epochNs + span.startNs(), TimeUnit.NANOSECONDS)
            .setAttribute(STATUS, span.status().name())
            .setAttribute(BYTES, span.work().bytes())
            .setAttribute(WAIT_NS, span.work().waitNs());
    if (span.ids().parentId() == 0) {
      builder.setNoParent();
    } else {
      builder.setParent(Context.root().with(Span.wrap(parent(span))));
    }
    if (span.isRequest()) {
      builder.setAttribute(BLOCKS, (long) span.work().blocks());
      builder.setAttribute(BLOCKS_OK, (long) span.work().done());
    }
    if (!span.work().namespace().isEmpty()) {
      builder.setAttribute(NAMESPACE, span.work().namespace());
    }
    Span made = builder.startSpan();
    if (isError(span.status())) {
      made.setStatus(StatusCode.ERROR, span.status().meaning());
    }
    made.end(epochNs + span.endNs(), TimeUnit.NANOSECONDS);
  }

  private SpanContext parent(RequestTold.Span span) {
    String id = HEX.toHexDigits(span.ids().parentId());
    return span.isRequest()
        ? SpanContext.createFromRemoteParent(
            nextTraceId, id, TraceFlags.getSampled(), TraceState.getDefault())
        : SpanContext.create(nextTraceId, id, TraceFlags.getSampled(), TraceState.getDefault());
  }

  private static boolean isError(Status status) {
    return switch (status) {
      case OK, MISS, PENDING, EXISTS, CANCELLED, NOT_ADMITTED -> false;
      default -> true;
    };
  }

  @Override
  public void close() {
    provider.close();
    exporter.close();
  }
}
