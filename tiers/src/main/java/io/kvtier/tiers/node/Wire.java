package io.kvtier.tiers.node;

import java.io.IOException;
import java.nio.ByteBuffer;

/** The bytes of a connection, encrypted or not. No method blocks. */
interface Wire {
  /** What a handshake waits for. */
  enum Handshake {
    DONE,
    BYTES,
    SPACE,
    TASK
  }

  /**
   * Goes on with the handshake.
   *
   * @param taskDone runs on another thread when the handshake can go on after {@link
   *     Handshake#TASK}
   */
  Handshake handshake(Runnable taskDone) throws IOException;

  /** Reads bytes; 0 if none have come, -1 at the end. */
  int read(ByteBuffer into) throws IOException;

  /**
   * Reads bytes into a buffer. A wire that can do so in one call of the kernel reads the bytes that
   * follow into another buffer.
   *
   * @return how many bytes both buffers took; 0 if none have come, -1 at the end
   */
  default long read(ByteBuffer into, ByteBuffer next) throws IOException {
    return read(into);
  }

  /** Writes bytes of several buffers, in order; those that were taken are passed. */
  long write(ByteBuffer[] from, int buffers) throws IOException;

  /** Writes what {@link #write} has taken and the channel has not; false if some is left. */
  boolean flush() throws IOException;

  /** Says goodbye, if that does not block. The channel is closed by the caller. */
  void end();

  /** Gives memory back; nothing else is called afterwards. */
  void release();
}
