package io.kvtier.daemon.grpc;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.MessageLite;
import io.kvtier.daemon.index.report.RequestTap;
import io.kvtier.daemon.node.NodeFinder;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TraceContext;
import io.vertx.core.Future;
import io.vertx.core.http.HttpConnection;
import io.vertx.grpc.common.GrpcStatus;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import java.util.function.IntFunction;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One call from its first byte to its end, for whatever reason it ends; then what it holds is
 * released, once. An answer is held back until the client has half-closed: the other end would
 * reset its stream, and the server take many resets for an attack.
 *
 * @param <R> the response message
 */
abstract class Call<R extends MessageLite> implements GrpcStream.Receiver {
  private static final Logger LOG = LoggerFactory.getLogger(Call.class);

  /** How long after its deadline a call is ended that waits for its client. */
  private static final long CLIENT_GRACE_NS = 250_000_000L;

  /** The same for one that waits for the index, which answers at the deadline, however busy. */
  private static final long INDEX_GRACE_NS = 5_000_000_000L;

  /** Is told of what happens to the calls of an event loop. */
  interface Watch {
    /** A call's first message has come. */
    void heard(Call<?> call);

    /** A call is over. */
    void ended(Call<?> call);

    /** A call is over, and its answer waits for its client's end. */
    void held(Call<?> call);
  }

  /**
   * What calls need of the event loop that they are confined to.
   *
   * @param requests is told of refusals that the index does not hear of
   * @param finder finds the nodes that have blocks
   * @param loop runs tasks on the event loop; from any thread
   */
  record Environment(
      IndexGateway gateway,
      RequestTap requests,
      Namespaces namespaces,
      IntFunction<MemorySegment> slabs,
      NodeFinder finder,
      Executor loop,
      int chunkBytes,
      long stallNs,
      Watch watch) {

    /** The namespace with a caller's number; the index knows it then. */
    Namespaces.Namespace namespace(long number) throws RefusedException {
      Namespaces.Namespace namespace = namespaces.get(number);
      gateway.know(namespace);
      return namespace;
    }
  }

  final Environment environment;
  final RemoteConnection connection;
  private final GrpcStream stream;
  private final long deadlineNs;
  private final @Nullable TraceContext context;
  private long progressNs = System.nanoTime();
  private long operationId;
  private boolean isHeard;
  private boolean halfClosed;
  private boolean over;
  private @Nullable Runnable answer;
  private Runnable onAnswered = () -> {};

  Call(Environment environment, RemoteConnection connection, GrpcStream stream) {
    this.environment = environment;
    this.connection = connection;
    this.stream = stream;
    this.context = stream.traceContext();
    long timeoutNs = stream.timeoutNs();
    this.deadlineNs = timeoutNs > 0 ? System.nanoTime() + timeoutNs : 0;
  }

  /** Begins to receive. */
  final void start() {
    connection.opened(this);
    stream.start(this);
  }

  @Override
  public final void onMessage(ReceivedMessage message) {
    progressNs = System.nanoTime();
    if (!isHeard) {
      isHeard = true;
      environment.watch.heard(this);
    }
    if (over || answer != null) {
      return;
    }
    try {
      take(message);
    } catch (InvalidProtocolBufferException e) {
      fail(GrpcStatus.INVALID_ARGUMENT, whyUnreadable(e));
    } catch (RefusedException e) {
      refuse(e.status(), e.why());
    }
  }

  /** What is wrong with a message, in words. */
  static String whyUnreadable(InvalidProtocolBufferException e) {
    return String.valueOf(e.getMessage()).contains("UTF-8")
        ? "a name in the message is not UTF-8; names are UTF-8"
        : "not a message of this method";
  }

  @Override
  public final void onHalfClose() {
    halfClosed = true;
    Runnable held = answer;
    if (held != null) {
      answered();
      held.run();
    } else if (!over) {
      try {
        onRequestsEnd();
      } catch (RefusedException e) {
        refuse(e.status(), e.why());
      }
    }
  }

  /**
   * Sends a request of this call to the index, in the caller's context.
   *
   * @return the number by which the gateway's cancel knows it
   */
  final long submit(IndexRequest request, Consumer<IndexAnswer> answered) {
    return environment
        .gateway()
        .submit(
            request,
            context,
            answer -> {
              try {
                answered.accept(answer);
              } catch (RuntimeException e) {
                LOG.error("the answer to a remote call was not taken", e);
                cutOff(); // nothing else may ever end it
              }
            });
  }

  @Override
  public final void onUnreadable(GrpcStatus status, String why) {
    fail(status, why);
  }

  /** The client is gone, and nothing can be answered. */
  @Override
  public final void onBroken() {
    answered();
    end();
  }

  abstract void take(ReceivedMessage message)
      throws InvalidProtocolBufferException, RefusedException;

  /** The client has sent its last message. */
  abstract void onRequestsEnd() throws RefusedException;

  /** Answers with a reason instead of a result, unless that has been done. */
  abstract void giveReason(Status status, String why);

  /** The client of this call asks for its cancellation, in another call. */
  abstract void cancelByClient();

  /** Whether nothing goes on before the client sends or takes more. */
  abstract boolean waitsForClient();

  /** The call is over: everything that it holds is given back. Called once. */
  abstract void release();

  /** Called now and then, also after the end while {@link #holdsAfterEnd}. */
  void tick(long nowNs) {}

  /** Whether something is held still, which what is being written needs. */
  boolean holdsAfterEnd() {
    return false;
  }

  /** Makes the call known to {@link #cancelByClient}'s caller. */
  final void named(long id) {
    operationId = id;
    connection.began(id, this);
  }

  final boolean isOver() {
    return over;
  }

  /** {@code CLOCK_MONOTONIC}; 0 without one. */
  final long deadlineNs() {
    return deadlineNs;
  }

  /** Takes no more bytes off the wire. */
  final void pause() {
    stream.pause();
  }

  final void resume() {
    stream.resume();
  }

  final boolean isHalfClosed() {
    return halfClosed;
  }

  final void progress() {
    progressNs = System.nanoTime();
  }

  // ---- answering
  // ------------------------------------------------------------------------------------------------

  /** Answers with one message, the last. */
  final void respond(R message) {
    finish(() -> stream.end(GrpcStream.framed(message)));
  }

  /** Ends a stream of messages, all of which are written. */
  final void respondEnd() {
    finish(stream::end);
  }

  /** Gives a reason of which the index knows nothing. */
  final void refuse(Status status, String why) {
    if (!over) {
      tellRefusal(false, status + ": " + why);
      giveReason(status, why);
    }
  }

  /** Gives the reason that a request was answered with; who answered it has told of it. */
  final void refuse(IndexAnswer reason) {
    giveReason(reason.status(), reason.text());
  }

  /** Ends the call without an answer of kvtier's. */
  final void fail(GrpcStatus status, String why) {
    if (!over) {
      tellRefusal(false, status.name() + ": " + why);
      finish(() -> stream.end(status, why));
    }
  }

  /** Something of this call is refused, and the index hears nothing of it. */
  final void tellRefusal(boolean isWarning, String what) {
    environment.requests().refusedOutside(context, isWarning, what);
  }

  private void finish(Runnable how) {
    if (over) {
      return;
    }
    end();
    if (halfClosed) {
      how.run();
    } else {
      answer = how;
      stream.dropRest();
      // The end may have come with what was dropped.
      if (answer != null) {
        environment.watch.held(this);
      }
    }
  }

  /** Adds one of several messages to what is sent next. */
  final void append(R message) {
    stream.append(GrpcStream.framed(message));
  }

  /** Adds a message whose last bytes are taken from where they are. */
  final void append(byte[] head, ByteBuffer bytes) {
    stream.append(head, bytes);
  }

  /** Sends what was added; completes when its bytes are on their way, or never will be. */
  final Future<Void> flushed() {
    return stream.flush();
  }

  /** Has something done as soon as no answer waits for the client's end any more. */
  final void whenAnswered(Runnable then) {
    onAnswered = then;
  }

  private void answered() {
    if (answer != null) {
      answer = null;
      onAnswered.run();
    }
  }

  /** Breaks off a call whose answer waits for the client's end. */
  final void dropAnswer() {
    if (answer != null) {
      answered();
      stream.reset();
    }
  }

  final HttpConnection httpConnection() {
    return stream.connection();
  }

  private void end() {
    if (!over) {
      over = true;
      connection.finished(operationId, this);
      release();
      environment.watch.ended(this);
    }
  }

  /** Breaks the call off. */
  final void cutOff() {
    if (!over) {
      end();
      stream.reset();
    }
  }

  /** Breaks the connection off, with all its calls. */
  final void cutConnection() {
    var _ = stream.connection().close();
  }

  /** Ends the call when its time is over, or nothing moved for too long. */
  final void checkTime(long nowNs) {
    boolean waitsForClient = waitsForClient();
    long graceNs = waitsForClient ? CLIENT_GRACE_NS : INDEX_GRACE_NS;
    if ((deadlineNs != 0 && nowNs - deadlineNs > graceNs)
        || (waitsForClient && nowNs - progressNs > environment.stallNs)) {
      cutOff();
    } else {
      tick(nowNs);
    }
  }
}
