package io.kvtier.daemon.events;

import io.kvtier.daemon.config.KvtierdConfig.EventsConfig;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;
import org.zeromq.ZMQException;

/**
 * The sockets of one of the engine's ranks: where batches are published with a sequence number of
 * their own, where consumers ask for what they missed, and where the engine's own events come from.
 * For one thread.
 */
final class RankSockets {
  /**
   * What a consumer asks for on the replay socket to be told of everything, instead of a number.
   */
  static final byte[] SNAPSHOT = "snapshot".getBytes(StandardCharsets.US_ASCII);

  /** What is published when the engine has forgotten all that its device held. */
  private static final byte[] CLEARED = "AllBlocksCleared".getBytes(StandardCharsets.US_ASCII);

  private static final byte[] END_SEQUENCE = {-1, -1, -1, -1, -1, -1, -1, -1};
  private static final byte[] NOTHING = {};
  private static final int FRAMES = 3;
  private static final int LINGER_MS = 200;

  private final ZMQ.Socket publisher;
  private final ZMQ.@Nullable Socket replay;
  private final ZMQ.@Nullable Socket engine;
  private final byte[] topic;
  private final byte[] tail;
  private final ReplayBuffer buffer;
  private final String endpoint;
  private long sequence;
  private long engineSequence = -1;

  /**
   * Opens them.
   *
   * @param rank from 0; ports are so much higher than those of the first
   * @param firstSequence of the first batch
   * @throws ZMQException where an address can't be had
   */
  RankSockets(ZContext context, EventsConfig config, int rank, long firstSequence) {
    topic = config.format().topic().getBytes(StandardCharsets.UTF_8);
    tail = EventBatch.tail(config.format().form(), config.ranks().first() + rank);
    buffer =
        new ReplayBuffer(
            config.buffers().replayBatches(),
            config.buffers().replayBytes() / config.ranks().count());
    sequence = firstSequence;
    publisher = open(context, SocketType.XPUB, config);
    // The last that is published gets so much time when the daemon ends.
    var _ = publisher.setLinger(LINGER_MS);
    // Who subscribes is told of everything.
    var _ = publisher.setXpubVerbose(true);
    String wanted = atRank(config.endpoints().publish(), rank);
    attach(publisher, "events.endpoint", wanted, !config.endpoints().connects());
    endpoint = config.endpoints().connects() ? wanted : publisher.getLastEndpoint();
    replay =
        config.endpoints().replay().isEmpty() ? null : open(context, SocketType.ROUTER, config);
    if (replay != null) {
      attach(replay, "events.replay_endpoint", atRank(config.endpoints().replay(), rank), true);
    }
    engine = config.endpoints().engine().isEmpty() ? null : open(context, SocketType.SUB, config);
    if (engine != null) {
      var _ = engine.subscribe(NOTHING);
      attach(engine, "events.engine_endpoint", atRank(config.endpoints().engine(), rank), false);
    }
  }

  private static ZMQ.Socket open(ZContext context, SocketType type, EventsConfig config) {
    ZMQ.Socket socket = context.createSocket(type);
    var _ = socket.setHWM(config.buffers().highWaterMark());
    var _ = socket.setLinger(0);
    return socket;
  }

  private static void attach(ZMQ.Socket socket, String key, String endpoint, boolean binds) {
    try {
      boolean isAttached = binds ? socket.bind(endpoint) : socket.connect(endpoint);
      if (!isAttached) {
        throw new IllegalArgumentException("no such address");
      }
    } catch (ZMQException | IllegalArgumentException e) {
      throw new IllegalArgumentException(
          key
              + " '"
              + endpoint
              + "' can't be used: "
              + e.getMessage()
              + "; is it another process's, or not an address of this machine?",
          e);
    }
  }

  /** As vLLM counts: the port of a rank follows that of the one before it. */
  static String atRank(String endpoint, int rank) {
    if (rank == 0 || endpoint.isEmpty()) {
      return endpoint;
    }
    int colon = endpoint.lastIndexOf(':');
    return endpoint.substring(0, colon + 1)
        + (Integer.parseInt(endpoint, colon + 1, endpoint.length(), 10) + rank);
  }

  /** The address, with the port that the system chose where it was to. */
  String endpoint() {
    return endpoint;
  }

  /** Has a poller look for what comes. */
  void register(ZMQ.Poller poller) {
    for (ZMQ.Socket socket : sockets()) {
      var _ = poller.register(socket, ZMQ.Poller.POLLIN);
    }
  }

  private List<ZMQ.Socket> sockets() {
    ZMQ.Socket asked = replay;
    ZMQ.Socket heard = engine;
    if (asked == null) {
      return heard == null ? List.of(publisher) : List.of(publisher, heard);
    }
    return heard == null ? List.of(publisher, asked) : List.of(publisher, asked, heard);
  }

  /** The number of the last batch. */
  long lastSequence() {
    return sequence - 1;
  }

  // ---- publishing

  /** Publishes a batch of ours. */
  void publish(byte[] batch) {
    send(EventBatch.payload(batch, tail));
  }

  private void send(byte[] payload) {
    // What a consumer has no room for is dropped for it by the socket: it sees the gap.
    var _ = publisher.send(topic, ZMQ.SNDMORE);
    var _ = publisher.send(bytes(sequence), ZMQ.SNDMORE);
    var _ = publisher.send(payload, 0);
    buffer.add(sequence, payload);
    sequence++;
  }

  private static byte[] bytes(long sequence) {
    return ByteBuffer.allocate(Long.BYTES).putLong(sequence).array();
  }

  /** Leaves numbers out: consumers see that something is missing. */
  void skip(long batches) {
    sequence += batches;
  }

  /** Whether somebody has subscribed since this was asked last. */
  boolean takeSubscriptions() {
    boolean isNew = false;
    for (byte[] frame = publisher.recv(ZMQ.DONTWAIT);
        frame != null;
        frame = publisher.recv(ZMQ.DONTWAIT)) {
      isNew |= frame.length > 0 && frame[0] == 1;
    }
    return isNew;
  }

  // ---- replay

  /**
   * Answers the next request for what was missed.
   *
   * @return who wants a snapshot; {@link #NOTHING} of who was answered; null where nobody asks
   */
  byte @Nullable [] answerReplay() {
    ZMQ.Socket asked = replay;
    byte[] client = asked == null ? null : asked.recv(ZMQ.DONTWAIT);
    if (asked == null || client == null) {
      return null;
    }
    int frames = 1;
    byte[] request = NOTHING;
    while (asked.hasReceiveMore()) {
      request = asked.recv();
      frames++;
    }
    if (frames != FRAMES || request.length != Long.BYTES) {
      return NOTHING;
    }
    if (Arrays.equals(request, SNAPSHOT)) {
      return client;
    }
    buffer.forEachFrom(
        ByteBuffer.wrap(request).getLong(), (number, payload) -> reply(client, number, payload));
    endReply(client);
    return NOTHING;
  }

  /** Sends a part of a snapshot, as of the last batch. */
  void snapshot(byte[] client, byte[] batch) {
    reply(client, lastSequence(), EventBatch.payload(batch, tail));
  }

  private void reply(byte[] client, long number, byte[] payload) {
    send(client, bytes(number), payload);
  }

  /** Says that no more comes. */
  void endReply(byte[] client) {
    send(client, END_SEQUENCE, NOTHING);
  }

  private void send(byte[] client, byte[] number, byte[] payload) {
    ZMQ.Socket to = replay;
    if (to != null) {
      var _ = to.send(client, ZMQ.SNDMORE);
      var _ = to.send(NOTHING, ZMQ.SNDMORE);
      var _ = to.send(number, ZMQ.SNDMORE);
      var _ = to.send(payload, 0);
    }
  }

  // ---- the engine's own events

  /** What came from the engine. */
  enum Relayed {
    NOTHING,
    EVENTS,
    /** All blocks of the engine were cleared: consumers may take that for ours, too. */
    CLEARED
  }

  /** Publishes the next batch that the engine has published. */
  Relayed relay() {
    ZMQ.Socket from = engine;
    byte[] frame = from == null ? null : from.recv(ZMQ.DONTWAIT);
    if (from == null || frame == null) {
      return Relayed.NOTHING;
    }
    int frames = 1;
    byte[] number = NOTHING;
    while (from.hasReceiveMore()) {
      number = frame;
      frame = from.recv();
      frames++;
    }
    if (frames != FRAMES || number.length != Long.BYTES) {
      return Relayed.EVENTS;
    }
    long published = ByteBuffer.wrap(number).getLong();
    if (engineSequence >= 0 && published > engineSequence + 1) {
      skip(published - engineSequence - 1);
    }
    engineSequence = published;
    send(frame);
    return contains(frame, CLEARED) ? Relayed.CLEARED : Relayed.EVENTS;
  }

  private static boolean contains(byte[] bytes, byte[] sought) {
    for (int at = 0; at + sought.length <= bytes.length; at++) {
      if (Arrays.equals(bytes, at, at + sought.length, sought, 0, sought.length)) {
        return true;
      }
    }
    return false;
  }
}
