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
 * Takes descriptors that clients pass, on threads that nothing depends on: how long it takes to let
 * go of what is no memory is its sender's choice.
 */
final class PassedDescriptors {
  /** What became of a descriptor. */
  sealed interface Passed {
    /** What is closed when the question has its answer. */
    default List<Descriptor> unwanted() {
      return List.of();
    }

    record Memory(Descriptor descriptor) implements Passed {}

    /** None, or several. */
    record OfAnotherCount(List<Descriptor> unwanted) implements Passed {}

    /** There is no use for it here. */
    record Unwanted() implements Passed {}

    /** The connection ends. */
    record Wrong(String why, List<Descriptor> unwanted) implements Passed {}
  }

  /** A question whose descriptor was taken: it can be answered now. */
  @SuppressWarnings("ArrayRecordComponent") // these are never compared
  record Taken(Connection connection, byte[] question, Passed passed) {}

  private final Closer closer;
  private final BooleanSupplier takesMemory;
  private final Runnable bell;
  private final ConcurrentLinkedQueue<Taken> taken = new ConcurrentLinkedQueue<>();

  /**
   * Makes one.
   *
   * @param takesMemory whether the daemon has a use for memory of a device
   * @param bell rung when there is something for {@link #poll}
   */
  PassedDescriptors(Closer closer, BooleanSupplier takesMemory, Runnable bell) {
    this.closer = closer;
    this.takesMemory = takesMemory;
    this.bell = bell;
  }

  /**
   * Takes a question with the descriptors that it passes, elsewhere. The connection's socket is
   * read by nobody else until {@link #poll} returns it.
   *
   * @return false where too much that was passed does not close
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
          // Its connection need not wait for that.
          passed.unwanted().forEach(UnixSocket::discard);
        });
  }

  /** The next that was taken, or null. */
  @Nullable Taken poll() {
    return taken.poll();
  }

  /** Nobody here has a use for it. */
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
