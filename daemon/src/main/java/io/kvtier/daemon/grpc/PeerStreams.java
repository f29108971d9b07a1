package io.kvtier.daemon.grpc;

import io.netty.handler.codec.http2.Http2Connection;
import io.netty.handler.codec.http2.Http2ConnectionAdapter;
import io.netty.handler.codec.http2.Http2ConnectionHandler;
import io.netty.handler.codec.http2.Http2Exception;
import io.netty.handler.codec.http2.Http2Stream;

/**
 * The HTTP/2 streams of one connection, from their opening until both sides have ended them. A
 * stream takes kilobytes of the heap, and costs the peer a dozen bytes. Netty's limit holds only
 * once the peer has acknowledged it. This limit holds from the first stream on: a stream beyond it
 * is refused before anything is allocated, as REFUSED_STREAM, which clients send again.
 *
 * <p>Confined to an event loop.
 */
final class PeerStreams extends Http2ConnectionAdapter {
  /** Maximum streams of a connection. */
  static final int STREAMS_MAX = 256;

  /** Maximum streams of a connection on which no message has come yet. */
  static final int UNPROVEN_MAX = 64;

  /** Maximum streams of a connection with messages, while the event loop has its maximum. */
  static final int FEW = 4;

  /** Maximum size of the header table of answers, bytes: the default of HTTP/2. */
  private static final long HEADER_TABLE_BYTES_MAX = 4096;

  /** The streams of all connections of an event loop. */
  static final class Total {
    private final int max;
    private final Runnable onFull;
    private int count;

    /** Of these, those of connections that are being ended: they are in the heap still. */
    private int leaving;

    /**
     * No streams.
     *
     * @param onFull done whenever one is opened beyond the most
     */
    Total(int max, Runnable onFull) {
      this.max = max;
      this.onFull = onFull;
    }

    private boolean isFull() {
      return count >= max;
    }

    /** Whether ends were not enough yet, as many connections opened some each. */
    private boolean isOver() {
      return count >= max + max / 2;
    }

    /** Whether not even a newcomer's first stream fits. */
    private boolean isFarOver() {
      return count >= 2 * max;
    }
  }

  private final Http2Connection connection;
  private final Total total;
  private int count;
  private boolean isProven;
  private boolean isLeaving;
  private boolean isEnded;

  private PeerStreams(Http2Connection connection, Total total) {
    this.connection = connection;
    this.total = total;
  }

  /** Begins to count those of a connection that has none yet. */
  static PeerStreams of(Http2ConnectionHandler handler, Total total) {
    PeerStreams streams = new PeerStreams(handler.connection(), total);
    streams.connection.addListener(streams);
    streams.limit();
    return streams;
  }

  /** Has a connection remember no more headers for its peer than HTTP/2 has by default. */
  static void boundHeaderTable(Http2ConnectionHandler handler) {
    var table = handler.encoder().configuration().headersConfiguration();
    try {
      if (table.maxHeaderTableSize() > HEADER_TABLE_BYTES_MAX) {
        table.maxHeaderTableSize(HEADER_TABLE_BYTES_MAX);
      }
    } catch (Http2Exception e) {
      throw new IllegalStateException("the default is no size of a header table", e);
    }
  }

  /** How many there are. */
  int count() {
    return count;
  }

  /** A message has come: there may be as many as a client at work has. */
  void prove() {
    isProven = true;
    limit();
  }

  /** The connection is being ended: it opens no more. */
  void leave() {
    if (!isLeaving) {
      isLeaving = true;
      total.leaving += count;
      limit();
    }
  }

  /** The connection has ended, and its streams go with it. */
  void end() {
    if (!isEnded) {
      leave();
      isEnded = true;
      total.leaving -= count;
      total.count -= count;
    }
  }

  @Override
  public void onStreamAdded(Http2Stream stream) {
    if (isEnded) {
      return;
    }
    count++;
    total.count++;
    if (isLeaving) {
      total.leaving++;
    } else if (total.count - total.leaving >= total.max) {
      total.onFull.run();
    }
    limit();
  }

  @Override
  public void onStreamRemoved(Http2Stream stream) {
    if (isEnded) {
      return;
    }
    count--;
    total.count--;
    if (isLeaving) {
      total.leaving--;
    }
    limit();
  }

  @Override
  public void onStreamActive(Http2Stream stream) {
    limit(); // the acknowledged settings may have raised it
  }

  private void limit() {
    int max;
    if (isLeaving) {
      max = 0;
    } else if (isProven) {
      max = total.isOver() ? 1 : total.isFull() ? FEW : STREAMS_MAX;
    } else {
      max = total.isFarOver() ? 0 : total.isFull() ? 1 : UNPROVEN_MAX;
    }
    connection.remote().maxActiveStreams(max);
  }
}
