package io.kvtier.client.internal.session;

import io.kvtier.protocol.HandshakeDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.UnixSocket;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;

/** What is asked over the session's socket after the handshake: one question at a time. */
final class SocketQuestions {
  /** For {@link #ask}, where no descriptor goes with the question. */
  static final int NO_DESCRIPTOR = -1;

  /**
   * An answer.
   *
   * @param descriptors the asker's, who closes them
   */
  record Answer(Status status, List<Descriptor> descriptors) {}

  private final UnixSocket socket;

  /** Answers that were not there in time: they come before any other. */
  private int overdue;

  SocketQuestions(UnixSocket socket) {
    this.socket = socket;
  }

  /**
   * Asks, and waits for the answer.
   *
   * @param number what is asked about, which the answer repeats
   * @param descriptor one that the daemon gets a copy of
   * @param about what a message calls it
   * @throws IOException when the daemon does not answer, or something else
   */
  synchronized Answer ask(long magic, int number, int word, int descriptor, String about)
      throws IOException {
    byte[] question = new byte[HandshakeDescriptor.QUESTION_BYTES];
    MemorySegment fields = MemorySegment.ofArray(question);
    fields.set(ValueLayout.JAVA_LONG_UNALIGNED, 0, magic);
    fields.set(ValueLayout.JAVA_INT_UNALIGNED, HandshakeDescriptor.QUESTION_NUMBER_OFFSET, number);
    fields.set(ValueLayout.JAVA_INT_UNALIGNED, HandshakeDescriptor.QUESTION_WORD_OFFSET, word);
    if (descriptor == NO_DESCRIPTOR) {
      socket.send(question);
    } else {
      socket.pass(question, descriptor);
    }
    overdue++;
    while (true) {
      UnixSocket.Message message;
      try {
        message = socket.receive(HandshakeDescriptor.MESSAGE_BYTES_MAX);
      } catch (IOException e) {
        // An answer that this process could not take whole has come all the same: the next one is
        // another's.
        overdue--;
        throw e;
      }
      if (message == null) {
        throw new IOException("the daemon did not answer for " + about);
      }
      overdue--;
      if (overdue == 0 || message.bytes().length == 0) {
        return read(message, magic, number, about);
      }
      message.descriptors().forEach(Descriptor::close);
    }
  }

  private static Answer read(UnixSocket.Message message, long magic, int number, String about)
      throws IOException {
    MemorySegment fields = MemorySegment.ofArray(message.bytes());
    String problem = null;
    if (fields.byteSize() == 0) {
      problem = "the daemon has gone";
    } else if (fields.byteSize() < HandshakeDescriptor.QUESTION_BYTES
        || fields.get(ValueLayout.JAVA_LONG_UNALIGNED, 0) != magic) {
      problem = "the daemon's answer for " + about + " is none";
    } else if (fields.get(
            ValueLayout.JAVA_INT_UNALIGNED, HandshakeDescriptor.QUESTION_NUMBER_OFFSET)
        != number) {
      problem = "the daemon answers for another than " + about;
    }
    if (problem != null) {
      message.descriptors().forEach(Descriptor::close);
      throw new IOException(problem);
    }
    short status =
        fields.get(ValueLayout.JAVA_SHORT_UNALIGNED, HandshakeDescriptor.ANSWER_STATUS_OFFSET);
    return new Answer(Status.of(Short.toUnsignedInt(status)), message.descriptors());
  }
}
