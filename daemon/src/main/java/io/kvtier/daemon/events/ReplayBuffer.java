package io.kvtier.daemon.events;

import java.util.ArrayDeque;

/** The last messages that were published, within bounds of number and bytes. For one thread. */
final class ReplayBuffer {
  /** Is shown messages. */
  @FunctionalInterface
  interface Visitor {
    void visit(long sequence, byte[] payload);
  }

  private static final class Message {
    private final long sequence;
    private final byte[] payload;

    Message(long sequence, byte[] payload) {
      this.sequence = sequence;
      this.payload = payload;
    }
  }

  private final ArrayDeque<Message> messages = new ArrayDeque<>();
  private final int messagesMax;
  private final long bytesMax;
  private long bytes;

  ReplayBuffer(int messagesMax, long bytesMax) {
    this.messagesMax = messagesMax;
    this.bytesMax = bytesMax;
  }

  /** Keeps a message, and drops the oldest as the bounds want it. */
  void add(long sequence, byte[] payload) {
    messages.addLast(new Message(sequence, payload));
    bytes += payload.length;
    while (messages.size() > messagesMax || bytes > bytesMax) {
      bytes -= messages.removeFirst().payload.length;
    }
  }

  /** Shows the messages from a sequence number on, which is unsigned. */
  void forEachFrom(long sequence, Visitor visitor) {
    for (Message message : messages) {
      if (Long.compareUnsigned(message.sequence, sequence) >= 0) {
        visitor.visit(message.sequence, message.payload);
      }
    }
  }
}
