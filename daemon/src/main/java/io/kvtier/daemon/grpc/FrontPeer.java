package io.kvtier.daemon.grpc;

/** One connection of an event loop: the time of its last use, and what it holds. */
final class FrontPeer {
  /** Streams added to the count of a connection on which no call has had a message. */
  private static final int UNPROVEN_EXTRA = 16;

  final String address;
  final HeldAnswers held;
  final PeerStreams streams;
  long usedNs = System.nanoTime();

  /** Calls on it that are under way. */
  int calls;

  /** The tenant of the last accepted call; {@link HeldAnswers#NOBODY} if there was none. */
  int tenant = HeldAnswers.NOBODY;

  /** Whether a call on it has had its message. */
  boolean isProven;

  /** Whether the connection is being closed; bytes that have arrived before are still read. */
  boolean isCut;

  /** Whether a GOAWAY frame has announced its end, at {@link #usedNs}. */
  boolean isEndAnnounced;

  FrontPeer(String address, PeerStreams streams, CallLimits limits) {
    this.address = address;
    this.streams = streams;
    this.held = new HeldAnswers(limits);
  }

  /**
   * Streams that no call needs. A connection without a message counts with {@link #UNPROVEN_EXTRA}
   * more, so that it goes before others, except those with many answers that their peers do not
   * take.
   */
  int uselessStreams() {
    int count = streams.count();
    if (isProven) {
      return count - calls;
    }
    return count == 0 ? 0 : count + UNPROVEN_EXTRA;
  }

  boolean hasCalled() {
    return tenant != HeldAnswers.NOBODY;
  }
}
