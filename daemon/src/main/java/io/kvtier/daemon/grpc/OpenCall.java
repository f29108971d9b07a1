package io.kvtier.daemon.grpc;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.MessageLite;
import io.vertx.grpc.common.GrpcStatus;
import org.jspecify.annotations.Nullable;

/**
 * A call of an open method. The caller is not known, so the call takes none of the {@link
 * CallPlaces}. It keeps one short message until the client's end. The event loop bounds the number
 * of these calls and the time that they wait.
 */
final class OpenCall implements GrpcStream.Receiver {
  private final GrpcStream stream;
  private final OpenMethods.Method method;
  private @Nullable ReceivedMessage message;
  private boolean isOver;
  private Runnable onOver = () -> {};

  OpenCall(GrpcStream stream, OpenMethods.Method method) {
    this.stream = stream;
    this.method = method;
  }

  /**
   * Begins to receive.
   *
   * @param then run when the call has been answered or has ended
   */
  void start(Runnable then) {
    onOver = then;
    stream.limitMessages(OpenMethods.MESSAGE_BYTES_MAX);
    stream.start(this);
  }

  @Override
  public void onMessage(ReceivedMessage received) {
    if (message != null) {
      breakOff(); // more than one is no call of this method
    } else {
      message = received;
    }
  }

  @Override
  public void onHalfClose() {
    if (isOver) {
      return;
    }
    over();
    OpenMethods.Answer answer = answer(message);
    MessageLite answered = answer.message();
    if (answered == null) {
      stream.end(answer.status(), answer.why());
    } else {
      stream.end(GrpcStream.framed(answered));
    }
  }

  private OpenMethods.Answer answer(@Nullable ReceivedMessage received) {
    if (received == null) {
      return OpenMethods.Answer.refusal(GrpcStatus.INVALID_ARGUMENT, "no message came");
    }
    try {
      return method.answer(received.whole());
    } catch (InvalidProtocolBufferException e) {
      return OpenMethods.Answer.refusal(GrpcStatus.INVALID_ARGUMENT, Call.whyUnreadable(e));
    }
  }

  @Override
  public void onUnreadable(GrpcStatus status, String why) {
    breakOff();
  }

  @Override
  public void onBroken() {
    if (!isOver) {
      over();
    }
  }

  /** Ends the call without an answer. */
  void breakOff() {
    if (!isOver) {
      over();
      stream.reset();
    }
  }

  private void over() {
    isOver = true;
    onOver.run();
  }
}
