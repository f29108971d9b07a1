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
 * The sockets of one of the engine's ranks: one publishes batches, with the rank's own sequence
 * numbers, one answers consumers that missed batches, and one receives the engine's own events. For
 * one thread.
 */
final class RankSockets {
  /** A consumer sends this word to the replay socket, instead of a number, to get a snapshot. */
  static final byte[] SNAPSHOT = "snapshot".getBytes(StandardCharsets.US_ASCII);

  /** The event that the engine publishes when it has forgotten all blocks of its device. */
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
   * Opens the sockets.
   *
   * @param rank from 0; added to the ports of the first rank
   * @param firstSequence the number of the first batch
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
    // When the daemon ends, the last batch has this much time to leave.
    var _ = publisher.setLinger(LINGER_MS);
    // Every subscription must arrive here, because each one causes a snapshot.
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

  /** The endpoint of a rank. Ports of ranks follow each other, as in vLLM. */
  static String atRank(String endpoint, int rank) {
    if (rank == 0 || endpoint.isEmpty()) {
      return endpoint;
    }
    int colon = endpoint.lastIndexOf(':');
    return endpoint.substring(0, colon + 1)
        + (Integer.parseInt(endpoint, colon + 1, endpoint.length(), 10) + rank);
  }

  /** The address, with the port that the system chose if none was configured. */
  String endpoint() {
    return endpoint;
  }

  /** Registers the sockets that receive at a poller. */
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

  /** Publishes one of the daemon's own batches. */
  void publish(byte[] batch) {
    send(EventBatch.payload(batch, tail));
  }

  private void send(byte[] payload) {
    // The socket drops batches for a consumer whose queue is full; this consumer sees the gap.
    var _ = publisher.send(topic, ZMQ.SNDMORE);
    var _ = publisher.send(bytes(sequence), ZMQ.SNDMORE);
    var _ = publisher.send(payload, 0);
    buffer.add(sequence, payload);
    sequence++;
  }

  private static byte[] bytes(long sequence) {
    return ByteBuffer.allocate(Long.BYTES).putLong(sequence).array();
  }

  /** Leaves numbers out, so that consumers see that batches are missing. */
  void skip(long batches) {
    sequence += batches;
  }

  /** Whether a consumer has subscribed since the last call. */
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
   * Answers the next request for missed batches.
   *
   * @return the consumer that wants a snapshot; {@link #NOTHING} if a consumer was answered; null
   *     if there is no request
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

  /** Tells the consumer that the answer has ended. */
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

  /** The kind of a batch of the engine. */
  enum Relayed {
    NOTHING,
    EVENTS,
    /**
     * The engine has cleared all its blocks: consumers may apply this to the daemon's blocks, too.
     */
    CLEARED
  }

  /** Publishes the next batch of the engine again. */
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
