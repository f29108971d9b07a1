package io.kvtier.protocol.linux;

import java.util.concurrent.atomic.AtomicBoolean;

/** An owned file descriptor: closed once, by whoever holds it. */
public final class Descriptor implements AutoCloseable {
  private final int number;
  private final AtomicBoolean closed = new AtomicBoolean();

  Descriptor(int number) {
    this.number = number;
  }

  /**
   * The descriptor's number in this process; -1 once it is closed, as the number may be another
   * file's by then.
   */
  public int number() {
    return closed.get() ? -1 : number;
  }

  @Override
  public void close() {
    if (closed.compareAndSet(false, true)) {
      Libc.close(number);
    }
  }

  @Override
  public String toString() {
    return "fd " + number;
  }
}
