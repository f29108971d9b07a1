package io.kvtier.daemon.session;

import io.kvtier.protocol.HandshakeDescriptor;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.DescriptorKind;
import io.kvtier.protocol.linux.UnixSocket;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Takes descriptors that clients pass, on threads of the closer: a client can pass a descriptor
 * whose close takes as long as the client likes.
 */
final class PassedDescriptors {
  /** The outcome for the descriptors of a question. */
  sealed interface Passed {
    /** The descriptors that are closed after the answer. */
    default List<Descriptor> unwanted() {
      return List.of();
    }

    record Memory(Descriptor descriptor) implements Passed {}

    /** No descriptor, or several. */
    record OfAnotherCount(List<Descriptor> unwanted) implements Passed {}

    /** The daemon has no use for descriptors. */
    record Unwanted() implements Passed {}

    /** Descriptors that are refused; the connection ends. */
    record Wrong(String why, List<Descriptor> unwanted) implements Passed {}
  }

  /** A question whose descriptors were taken, and that can be answered now. */
  @SuppressWarnings("ArrayRecordComponent") // these are never compared
  record Taken(Connection connection, byte[] question, Passed passed) {}

  private final Closer closer;
  private final BooleanSupplier takesMemory;
  private final Runnable bell;
  private final ConcurrentLinkedQueue<Taken> taken = new ConcurrentLinkedQueue<>();

  /**
   * A taker without questions.
   *
   * @param takesMemory whether the daemon has a use for memory of a device
   * @param bell rung when {@link #poll} has something to return
   */
  PassedDescriptors(Closer closer, BooleanSupplier takesMemory, Runnable bell) {
    this.closer = closer;
    this.takesMemory = takesMemory;
    this.bell = bell;
  }

  /**
   * Takes a question with its descriptors, on another thread. Until {@link #poll} returns the
   * connection, no other thread may read its socket.
   *
   * @return false if too many descriptors that were passed before do not close
   */
  boolean take(Connection connection, byte[] question) {
    boolean isWanted = takesMemory.getAsBoolean();
    return closer.run(
        connection.peer.pid(),
        connection.peer.uid(),
        () -> {
          Passed passed = isWanted ? received(connection) : dropped(connection);
          taken.add(new Taken(connection, question, passed));
          bell.run();
          // The connection need not wait until they are closed.
          passed.unwanted().forEach(UnixSocket::discard);
        });
  }

  /** The next question that can be answered, or null. */
  @Nullable Taken poll() {
    return taken.poll();
  }

  /** Drops the message with its descriptors. */
  private static Passed dropped(Connection connection) {
    connection.socket.drop();
    return new Passed.Unwanted();
  }

  private static Passed received(Connection connection) {
    try {
      UnixSocket.Message message = connection.socket.receive(HandshakeDescriptor.MESSAGE_BYTES_MAX);
      List<Descriptor> descriptors = message == null ? List.of() : message.descriptors();
      if (descriptors.size() == 1 && DescriptorKind.isMemory(descriptors.getFirst())) {
        return new Passed.Memory(descriptors.getFirst());
      }
      boolean isMemory = descriptors.stream().allMatch(DescriptorKind::isMemory);
      return isMemory
          ? new Passed.OfAnotherCount(descriptors)
          : new Passed.Wrong("it passed a descriptor of something that is no memory", descriptors);
    } catch (IOException e) {
      return new Passed.Wrong(String.valueOf(e.getMessage()), List.of());
    }
  }
}
