package io.kvtier.client;

import io.kvtier.protocol.TraceContext;
import java.util.HexFormat;
import java.util.Locale;
import java.util.concurrent.ThreadLocalRandom;
import org.jspecify.annotations.Nullable;

/**
 * The context that requests are made in: the daemon's log names its trace id, and where it is
 * sampled, the daemon's spans are its children. It holds for what is begun within {@link #run} or
 * {@link #call}, whoever waits for it then.
 */
public final class RequestContext {
  private static final ScopedValue<TraceContext> CURRENT = ScopedValue.newInstance();

  private RequestContext() {}

  /**
   * The context of a {@code traceparent}, as W3C has it.
   *
   * @throws IllegalArgumentException it is none
   */
  public static TraceContext of(String traceparent) {
    TraceContext context = TraceContext.parse(traceparent);
    if (context == null) {
      throw new IllegalArgumentException("'" + traceparent + "' is no traceparent");
    }
    return context;
  }

  /**
   * A context that is not sampled, with a request id of one's own: 32 hexadecimal digits, such as a
   * UUID has with hyphens or without.
   *
   * @throws IllegalArgumentException it is none
   */
  public static TraceContext ofRequestId(String id) {
    long span = ThreadLocalRandom.current().nextLong(1, Long.MAX_VALUE);
    String digits = id.replace("-", "").toLowerCase(Locale.ROOT);
    TraceContext context =
        digits.length() == 32
            ? TraceContext.parse("00-" + digits + "-" + HexFormat.of().toHexDigits(span) + "-00")
            : null;
    if (context == null) {
      throw new IllegalArgumentException("'" + id + "' is no request id: expected 32 hex digits");
    }
    return context;
  }

  /** Runs something in a context. */
  public static void run(TraceContext context, Runnable what) {
    ScopedValue.where(CURRENT, context).run(what);
  }

  /** The same of what has a result. */
  public static <T extends @Nullable Object, X extends Throwable> T call(
      TraceContext context, ScopedValue.CallableOp<? extends T, X> what) throws X {
    return ScopedValue.where(CURRENT, context).<T, X>call(what);
  }

  /** The context of this thread; null: none. */
  public static @Nullable TraceContext current() {
    return CURRENT.isBound() ? CURRENT.get() : null;
  }
}
