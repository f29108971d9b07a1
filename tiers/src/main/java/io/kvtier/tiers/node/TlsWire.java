package io.kvtier.tiers.node;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLEngineResult;
import javax.net.ssl.SSLEngineResult.HandshakeStatus;
import javax.net.ssl.SSLException;

/**
 * TLS over a channel. Large reads are decrypted straight into the caller's buffer. Records are
 * written one after the other; a record that the channel does not take at once stays here.
 */
final class TlsWire implements Wire {
  private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

  /** Records that are read from the channel at once. */
  private static final int RECORDS_READ = 8;

  private final SocketChannel channel;
  private final BufferPool pool;
  private final SSLEngine engine;
  private final int recordBytes;
  private final int plainBytes;

  /** Bytes of the channel, encrypted, from the position to the limit. */
  private final ByteBuffer arrived;

  /** Bytes for the channel, encrypted, from the position to the limit. */
  private final ByteBuffer leaving;

  /** Decrypted bytes for which a caller's buffer was too small. */
  private final ByteBuffer plain;

  private boolean isTaskUnderWay;
  private boolean isAtEnd;

  /** How many bytes the last unwrap took. */
  private int consumed;

  TlsWire(SocketChannel channel, SSLEngine engine, BufferPool pool) {
    this.channel = channel;
    this.pool = pool;
    this.engine = engine;
    recordBytes = engine.getSession().getPacketBufferSize();
    plainBytes = engine.getSession().getApplicationBufferSize();
    arrived = pool.take(RECORDS_READ * recordBytes).flip();
    leaving = pool.take(2 * recordBytes).flip();
    plain = pool.take(plainBytes).flip();
  }

  @Override
  public Handshake handshake(Runnable taskDone) throws IOException {
    synchronized (this) {
      if (isTaskUnderWay) {
        return Handshake.TASK;
      }
    }
    if (engine.getHandshakeStatus() == HandshakeStatus.NOT_HANDSHAKING
        && engine.getSession().getProtocol().equals("NONE")) {
      engine.beginHandshake();
    }
    while (true) {
      if (!flush()) {
        return Handshake.SPACE;
      }
      switch (engine.getHandshakeStatus()) {
        case NEED_WRAP -> wrap(NOTHING);
        case NEED_UNWRAP, NEED_UNWRAP_AGAIN -> {
          consumed = 0;
          var _ = unwrap(plain.compact());
          plain.flip();
          if (consumed == 0 && fill() <= 0) {
            if (isAtEnd) {
              throw new SSLException("the other side hung up during the TLS handshake");
            }
            return Handshake.BYTES;
          }
        }
        case NEED_TASK -> {
          beginTask(taskDone);
          return Handshake.TASK;
        }
        case FINISHED, NOT_HANDSHAKING -> {
          return flush() ? Handshake.DONE : Handshake.SPACE;
        }
      }
    }
  }

  /** Certificates are checked on another thread: signatures take milliseconds. */
  private void beginTask(Runnable taskDone) {
    Runnable task = engine.getDelegatedTask();
    if (task == null) {
      return;
    }
    synchronized (this) {
      isTaskUnderWay = true;
    }
    Thread.ofVirtual()
        .start(() -> {
          task.run();
          synchronized (this) {
            isTaskUnderWay = false;
          }
          taskDone.run();
        });
  }

  private int fill() throws IOException {
    arrived.compact();
    int count = channel.read(arrived);
    arrived.flip();
    isAtEnd |= count < 0;
    return count;
  }

  /** Decrypts a record, if one has arrived; returns how many bytes came of it. */
  private int unwrap(ByteBuffer into) throws SSLException {
    SSLEngineResult result = engine.unwrap(arrived, into);
    if (result.getStatus() == SSLEngineResult.Status.CLOSED) {
      isAtEnd = true;
    }
    if (result.getStatus() == SSLEngineResult.Status.BUFFER_OVERFLOW) {
      throw new SSLException("a TLS record is larger than TLS allows");
    }
    consumed = result.bytesConsumed();
    return result.bytesProduced();
  }

  @Override
  public int read(ByteBuffer into) throws IOException {
    if (plain.hasRemaining()) {
      return takePlain(into);
    }
    int total = 0;
    while (into.hasRemaining()) {
      boolean isDirect = into.remaining() >= plainBytes;
      ByteBuffer target = isDirect ? into : plain.clear();
      consumed = 0;
      int count;
      try {
        count = unwrap(target);
      } finally {
        if (!isDirect) {
          plain.flip();
        }
      }
      answerPeer();
      if (!isDirect) {
        count = takePlain(into);
      }
      total += count;
      if (count == 0 && consumed == 0) {
        if (isAtEnd) {
          return total == 0 ? -1 : total;
        }
        if (total > 0 && arrived.remaining() < recordBytes) {
          return total;
        }
        if (fill() <= 0) {
          return total == 0 && isAtEnd && !arrived.hasRemaining() ? -1 : total;
        }
      }
      if (plain.hasRemaining()) {
        return total;
      }
    }
    return total;
  }

  private int takePlain(ByteBuffer into) {
    int count = Math.min(plain.remaining(), into.remaining());
    into.put(plain.slice(plain.position(), count));
    plain.position(plain.position() + count);
    return count;
  }

  /** TLS 1.3 may ask for an answer at any time, such as an update of keys. */
  private void answerPeer() throws IOException {
    while (engine.getHandshakeStatus() == HandshakeStatus.NEED_WRAP && flush()) {
      wrap(NOTHING);
      if (engine.isOutboundDone()) {
        return;
      }
    }
  }

  private int wrap(ByteBuffer from) throws SSLException {
    leaving.compact();
    try {
      SSLEngineResult result = engine.wrap(from, leaving);
      if (result.getStatus() == SSLEngineResult.Status.CLOSED) {
        isAtEnd = true;
      }
      return result.bytesConsumed();
    } finally {
      leaving.flip();
    }
  }

  @Override
  public long write(ByteBuffer[] from, int buffers) throws IOException {
    long taken = 0;
    for (int i = 0; i < buffers; i++) {
      while (from[i].hasRemaining()) {
        if (!flush()) {
          return taken;
        }
        int count = wrap(from[i]);
        taken += count;
        if (count == 0 && isAtEnd) {
          throw new SSLException("the other side has closed the connection");
        }
      }
    }
    return taken;
  }

  @Override
  public boolean flush() throws IOException {
    while (leaving.hasRemaining()) {
      if (channel.write(leaving) == 0) {
        return false;
      }
    }
    return true;
  }

  @Override
  public void end() {
    try {
      engine.closeOutbound();
      if (flush()) {
        wrap(NOTHING);
        var _ = flush();
      }
    } catch (IOException e) {
      // The channel is closed next.
    }
  }

  @Override
  public void release() {
    pool.giveBack(arrived);
    pool.giveBack(leaving);
    pool.giveBack(plain);
  }
}
