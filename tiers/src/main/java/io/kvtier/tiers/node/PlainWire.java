package io.kvtier.tiers.node;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/** Bytes as they are. */
final class PlainWire implements Wire {
  private final SocketChannel channel;
  private final ByteBuffer[] both = new ByteBuffer[2];

  PlainWire(SocketChannel channel) {
    this.channel = channel;
  }

  @Override
  public Handshake handshake(Runnable taskDone) {
    return Handshake.DONE;
  }

  @Override
  public int read(ByteBuffer into) throws IOException {
    return channel.read(into);
  }

  @Override
  public long read(ByteBuffer into, ByteBuffer next) throws IOException {
    both[0] = into;
    both[1] = next;
    return channel.read(both);
  }

  @Override
  public long write(ByteBuffer[] from, int buffers) throws IOException {
    return channel.write(from, 0, buffers);
  }

  @Override
  public boolean flush() {
    return true;
  }

  @Override
  public void end() {}

  @Override
  public void release() {}
}
