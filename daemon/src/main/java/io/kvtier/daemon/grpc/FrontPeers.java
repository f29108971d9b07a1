package io.kvtier.daemon.grpc;

import io.kvtier.daemon.access.ConnectionTable;
import io.kvtier.daemon.access.PipelinedRequests;
import io.kvtier.daemon.access.ReadSizes;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.WriteBufferWaterMark;
import io.netty.handler.codec.ByteToMessageDecoder;
import io.netty.handler.codec.http2.Http2ConnectionHandler;
import io.netty.handler.timeout.IdleStateHandler;
import io.vertx.core.http.HttpConnection;
import io.vertx.core.http.impl.HttpServerConnection;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * The connections of an event loop: how each begins and ends, and which are closed to make space.
 * Confined to the loop.
 */
final class FrontPeers {
  /** Maximum refusals that wait for their clients' end on a connection without an accepted call. */
  private static final int HELD_UNKNOWN_MAX = 16;

  /** Maximum connections of this kind on an event loop: each stream takes about 30 KiB. */
  private static final int HOLDING_UNKNOWN_MAX = 32;

  /** Time after a call in which its connection counts as new: enough for message and answer. */
  private static final long NEW_NS = 100_000_000;

  /** Time from the announcement of a connection's end to the end: enough for an open call. */
  private static final long ANNOUNCED_NS = 1_000_000_000;

  /** The error code of a GOAWAY frame that ends a connection in good order. */
  private static final long NO_ERROR = 0;

  private static final int WRITE_BYTES_MAX = 512 << 10;

  private final GrpcFront.Shared shared;
  private final Predicate<HttpConnection> isIdle;
  private final Consumer<HttpConnection> onClosed;
  private final Consumer<Runnable> later;
  private final Map<HttpConnection, FrontPeer> peers = new HashMap<>();

  /**
   * Connections without an accepted call on which refusals wait, or waited, for their clients' end;
   * oldest first.
   */
  private final Set<HttpConnection> holdingUnknown = new LinkedHashSet<>();

  private final PeerStreams.Total streams;

  /**
   * No connections.
   *
   * @param isIdle whether a connection has no call
   * @param onClosed told of connections that are closed
   * @param later runs a task in the next round of the loop
   */
  FrontPeers(
      GrpcFront.Shared shared,
      Predicate<HttpConnection> isIdle,
      Consumer<HttpConnection> onClosed,
      Consumer<Runnable> later) {
    this.shared = shared;
    this.isIdle = isIdle;
    this.onClosed = onClosed;
    this.later = later;
    this.streams = new PeerStreams.Total(shared.streamsOfLoopMax(), this::cutOneWithManyStreams);
  }

  /** The state of a connection; null once it is closed. */
  @Nullable FrontPeer of(HttpConnection connection) {
    return peers.get(connection);
  }

  /** Bounds the answers that wait on a connection without an accepted call. */
  void boundHeld(FrontPeer peer, HttpConnection connection) {
    if (peer.hasCalled()) {
      return;
    }
    if (peer.held.count() >= HELD_UNKNOWN_MAX) {
      giveUp(connection);
    } else if (holdingUnknown.add(connection) && holdingUnknown.size() > HOLDING_UNKNOWN_MAX) {
      cutOneHoldingUnknown();
    }
  }

  private void cutOneHoldingUnknown() {
    holdingUnknown.removeIf(each -> {
      FrontPeer peer = peers.get(each);
      return peer == null || peer.hasCalled() || peer.held.count() == 0;
    });
    if (holdingUnknown.size() > HOLDING_UNKNOWN_MAX) {
      Iterator<HttpConnection> all = holdingUnknown.iterator();
      HttpConnection oldest = all.next();
      all.remove();
      giveUp(oldest);
    }
  }

  /** Keeps a connection on which a call has had its message: no new connection takes its place. */
  void keep(FrontPeer peer, HttpConnection connection) {
    peer.isProven = true;
    peer.streams.prove();
    Channel channel = ((HttpServerConnection) connection).channelHandlerContext().channel();
    shared.connections().keep(channel);
    tune(channel);
  }

  /** Takes a connection that has been accepted. */
  void connected(HttpConnection connection) {
    ChannelHandlerContext served = ((HttpServerConnection) connection).channelHandlerContext();
    // The handler closes connections that send nothing. From now on this loop closes idle
    // connections.
    if (served.pipeline().get(IdleStateHandler.class) != null) {
      served.pipeline().remove(IdleStateHandler.class);
    }
    if (!(served.handler() instanceof Http2ConnectionHandler handler)) {
      // The client speaks HTTP/1.1. One answer says that this server does not.
      served
          .pipeline()
          .addBefore(
              served.name(), null, new PipelinedRequests(shared.daemon().counters()::countRefusal));
      return;
    }
    served.pipeline().addBefore(served.name(), null, new StreamFailures());
    String address = connection.remoteAddress().hostAddress();
    FrontPeer peer =
        new FrontPeer(
            address == null ? "" : address, PeerStreams.of(handler, streams), shared.calls());
    handler.setCumulator(ByteToMessageDecoder.COMPOSITE_CUMULATOR);
    // The peer's first settings have been applied before a handler could hear of them.
    PeerStreams.boundHeaderTable(handler);
    connection.remoteSettingsHandler(settings -> PeerStreams.boundHeaderTable(handler));
    peers.put(connection, peer);
    connection.closeHandler(v -> {
      peers.remove(connection);
      peer.streams.end();
      peer.held.close();
      holdingUnknown.remove(connection);
      onClosed.accept(connection);
    });
  }

  /**
   * Closes a connection after its streams. Streams of a closed connection would stay in memory
   * until the loop has read all bytes of thousands of other connections.
   */
  private void giveUp(HttpConnection connection) {
    FrontPeer peer = peers.get(connection);
    if (peer != null && !peer.isCut) {
      peer.isCut = true;
      peer.streams.leave();
      peer.held.breakOffAll();
      later.accept(() -> cut(connection));
    }
  }

  /**
   * Closes the connection with the most streams that no call needs, to make space. A new connection
   * with a few streams is spared while there is another candidate, so that it gets its answers.
   */
  private void cutOneWithManyStreams() {
    long now = System.nanoTime();
    HttpConnection found = null;
    boolean isFoundNew = true;
    int most = 0;
    for (Map.Entry<HttpConnection, FrontPeer> each : peers.entrySet()) {
      FrontPeer peer = each.getValue();
      int useless = peer.isCut ? 0 : peer.uselessStreams();
      if (useless == 0) {
        continue;
      }
      boolean isNew = now - peer.usedNs < NEW_NS && peer.streams.count() <= PeerStreams.FEW;
      if (isNew == isFoundNew ? useless > most : isFoundNew) {
        most = useless;
        isFoundNew = isNew;
        found = each.getKey();
      }
    }
    if (found != null) {
      shared.daemon().counters().countRefusal();
      giveUp(found);
    }
  }

  /** Closes a connection at once: the peer could delay an end in good order. */
  private static void cut(HttpConnection connection) {
    ConnectionTable.cut(((HttpServerConnection) connection).channelHandlerContext().channel());
  }

  /** Enlarges a connection's reads and writes, once a call on it has had its message. */
  private static void tune(Channel channel) {
    ReadSizes.enlarge(channel);
    channel
        .config()
        .setWriteBufferWaterMark(new WriteBufferWaterMark(WRITE_BYTES_MAX / 2, WRITE_BYTES_MAX));
  }

  /** Breaks off the answers that have waited for their clients' end for too long. */
  void checkHeld(long nowNs, long waitNsMax) {
    // A call that is broken off can end its connection, so this iterates over a copy.
    peers.values().stream()
        .map(peer -> peer.held)
        .filter(held -> held.count() > 0)
        .toList()
        .forEach(held -> held.checkTime(nowNs, waitNsMax));
  }

  /**
   * Ends connections that never called, or have been without a call for too long. A GOAWAY frame
   * goes before the end: it has clients connect again without a failed call.
   */
  void checkUse() {
    long now = System.nanoTime();
    List<HttpConnection> late = new ArrayList<>();
    peers.forEach((connection, peer) -> {
      if (peer.isEndAnnounced) {
        if (now - peer.usedNs > ANNOUNCED_NS) {
          late.add(connection);
        }
      } else if (!isIdle.test(connection)) {
        peer.usedNs = now;
      } else if (shared.peers().isOver(peer.hasCalled(), now - peer.usedNs)) {
        peer.isEndAnnounced = true;
        peer.usedNs = now;
        connection.goAway(NO_ERROR);
      }
    });
    late.forEach(FrontPeers::cut);
    shared.peers().sweep();
  }
}
