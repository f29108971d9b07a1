package io.kvtier.client.internal.local;

import io.kvtier.client.Blocks;
import io.kvtier.client.internal.session.Batch;
import io.kvtier.client.internal.session.Call;
import io.kvtier.client.internal.session.Session;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * An operation in flight: its calls, and the session that they were submitted to. With a listener
 * it is asynchronous, and the receiver answers it; otherwise the thread that submitted it waits.
 */
final class Operation extends Batch {
  private final @Nullable Session session;
  private final @Nullable Consumer<Operation> whenDone;

  /** An operation on a session, in as many calls as it takes. */
  Operation(Session session, int count, @Nullable Consumer<Operation> whenDone) {
    this(session, count, Protocol.KEYS_MAX, whenDone);
  }

  private Operation(
      @Nullable Session session, int count, int chunk, @Nullable Consumer<Operation> whenDone) {
    super(count, chunk);
    this.session = session;
    this.whenDone = whenDone;
  }

  /** An operation that the client answers by itself. */
  static Operation answered(Call answer, @Nullable Consumer<Operation> whenDone) {
    int count = answer.expected();
    Operation operation = new Operation(null, count, Math.max(1, count), whenDone);
    operation.call(0, answer);
    operation.tellDone();
    return operation;
  }

  /** Null when the client answered every call by itself. */
  @Nullable Session session() {
    return session;
  }

  @Override
  protected boolean isAsync() {
    return whenDone != null;
  }

  @Override
  protected void tellDone() {
    Consumer<Operation> listener = whenDone;
    if (listener != null) {
      listener.accept(this);
    }
  }

  /** The first reason why a call was not carried out, or OK. */
  Status status() {
    for (int c = 0; c < calls(); c++) {
      Status status = call(c).status();
      if (status != Status.OK) {
        return status;
      }
    }
    return Status.OK;
  }

  /** The explanation of {@link #status}; empty for OK. */
  String detail() {
    for (int c = 0; c < calls(); c++) {
      if (call(c).status() != Status.OK) {
        return call(c).detail();
      }
    }
    return "";
  }

  long value() {
    return call(0).value();
  }

  /** Reads the codes of the blocks' statuses and tiers. */
  void outcomes(byte[] statuses, byte[] tiers) {
    for (int c = 0; c < calls(); c++) {
      Call call = call(c);
      for (int i = chunkCount(c) - 1; i >= 0; i--) {
        statuses[c * chunk() + i] = (byte) call.blockStatus(i).code();
        tiers[c * chunk() + i] = (byte) call.tier(i).code();
      }
    }
  }

  Blocks blocks() {
    byte[] statuses = new byte[count()];
    byte[] tiers = new byte[count()];
    outcomes(statuses, tiers);
    return Blocks.wrap(statuses, tiers);
  }

  /** Asks the daemon to give up what still waits; the daemon answers it all the same. */
  void cancel() {
    Session some = session;
    if (some != null) {
      some.cancel(this);
    }
  }

  /** Reads the answer, then gives the calls back. */
  <T> T read(Function<Operation, T> reader) {
    try {
      return reader.apply(this);
    } finally {
      Session some = session;
      if (some != null) {
        some.free(this);
      }
    }
  }
}
