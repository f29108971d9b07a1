package io.kvtier.daemon.index;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.msgpack.core.MessagePack;
import org.msgpack.core.MessageUnpacker;
import org.msgpack.value.MapValue;
import org.msgpack.value.Value;
import org.msgpack.value.ValueFactory;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;

/**
 * A consumer of events as a router is one: it believes what it hears, and where a number is left
 * out it asks for what it missed, and for everything where that has gone. On a thread of its own.
 */
final class EventConsumer implements AutoCloseable {
  private record Message(long sequence, boolean isSnapshot, Value batch) {}

  private static final byte[] SNAPSHOT =
      "snapshot".getBytes(java.nio.charset.StandardCharsets.US_ASCII);

  private final ZContext context = new ZContext();
  private final ZMQ.Socket events;
  private final ZMQ.@Nullable Socket replay;
  private final BooleanSupplier loses;
  private final Map<String, Set<Long>> residency = new HashMap<>();
  private final Map<Long, List<Integer>> tokens = new HashMap<>();
  private final Thread thread;
  private long last = -1;
  private int snapshots;
  private int replays;
  private int cleared;
  private volatile boolean closed;
  private volatile @Nullable Throwable failure;

  /**
   * Subscribes.
   *
   * @param replayEndpoint null for a consumer that never asks
   * @param loses whether the next message is lost on its way
   */
  EventConsumer(String endpoint, @Nullable String replayEndpoint, BooleanSupplier loses) {
    this.loses = loses;
    events = context.createSocket(SocketType.SUB);
    events.setHWM(0);
    events.subscribe(new byte[0]);
    events.connect(endpoint);
    events.setReceiveTimeOut(20);
    replay = replayEndpoint == null ? null : context.createSocket(SocketType.DEALER);
    if (replay != null) {
      replay.setHWM(0);
      replay.connect(replayEndpoint);
      replay.setReceiveTimeOut(100);
    }
    thread = Thread.ofPlatform().name("consumer").start(this::run);
  }

  private void run() {
    try {
      while (!closed) {
        Message message = next();
        if (message != null && !loses.getAsBoolean()) {
          take(message);
        }
      }
    } catch (RuntimeException | Error e) {
      if (!closed) {
        failure = e;
      }
    }
  }

  private @Nullable Message next() {
    byte[] topic = events.recv();
    if (topic == null) {
      return null;
    }
    long sequence = ByteBuffer.wrap(events.recv()).getLong();
    return new Message(sequence, false, read(events.recv()));
  }

  private static Value read(byte[] payload) {
    try (MessageUnpacker unpacker = MessagePack.newDefaultUnpacker(payload)) {
      return unpacker.unpackValue();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private void take(Message message) {
    if (replay != null && last >= 0 && message.sequence > last + 1) {
      replays++;
      List<Message> missed = ask(ByteBuffer.allocate(8).putLong(last + 1).array(), false);
      boolean isWhole = follows(missed, last);
      missed.forEach(this::apply);
      if (!isWhole) {
        takeSnapshot();
      }
    }
    if (last < 0 || message.sequence > last || replay == null) {
      apply(message);
    }
  }

  /** Whether the messages are all that came after one, up to the last of them. */
  private static boolean follows(List<Message> messages, long before) {
    long expected = before + 1;
    for (Message message : messages) {
      if (message.sequence != expected++) {
        return false;
      }
    }
    return !messages.isEmpty();
  }

  private void takeSnapshot() {
    while (!closed) {
      snapshots++;
      List<Message> snapshot = ask(SNAPSHOT, true);
      if (snapshot.isEmpty()) {
        continue;
      }
      List<Message> since = ask(ByteBuffer.allocate(8).putLong(last + 1).array(), false);
      if (!since.isEmpty() && !follows(since, last)) {
        // Something was lost meanwhile, or left no trace any more.
        since.forEach(this::apply);
        continue;
      }
      List<Message> all = new ArrayList<>(since);
      all.addAll(snapshot);
      all.sort(Comparator.comparingLong(Message::sequence).thenComparing(Message::isSnapshot));
      begin(all);
      return;
    }
  }

  private synchronized void begin(List<Message> all) {
    residency.clear();
    all.forEach(this::apply);
  }

  private List<Message> ask(byte[] request, boolean isSnapshot) {
    List<Message> answers = new ArrayList<>();
    ZMQ.Socket asked = replay;
    if (asked == null) {
      return answers;
    }
    asked.send(new byte[0], ZMQ.SNDMORE);
    asked.send(request, 0);
    while (!closed) {
      byte[] empty = asked.recv();
      if (empty == null) {
        continue;
      }
      long sequence = ByteBuffer.wrap(asked.recv()).getLong();
      byte[] payload = asked.recv();
      if (payload.length == 0) {
        return answers;
      }
      answers.add(new Message(sequence, isSnapshot, read(payload)));
    }
    return answers;
  }

  private synchronized void apply(Message message) {
    last = Math.max(last, message.sequence);
    for (Value event : message.batch.asArrayValue().get(1).asArrayValue()) {
      apply(event.asMapValue());
    }
  }

  private void apply(MapValue event) {
    Map<Value, Value> fields = event.map();
    String type = field(fields, "type").asStringValue().asString();
    if (type.equals("AllBlocksCleared")) {
      cleared++;
      residency.clear();
      return;
    }
    String medium = field(fields, "medium").asStringValue().asString();
    Set<Long> blocks = residency.computeIfAbsent(medium, _ -> new HashSet<>());
    for (Value hash : field(fields, "block_hashes").asArrayValue()) {
      long key = Long.reverseBytes(hash.asIntegerValue().asBigInteger().longValue());
      if (type.equals("BlockStored")) {
        blocks.add(key);
        List<Integer> ids = new ArrayList<>();
        field(fields, "token_ids")
            .asArrayValue()
            .forEach(id -> ids.add(id.asIntegerValue().asInt()));
        tokens.put(key, ids);
      } else {
        blocks.remove(key);
      }
    }
  }

  private static Value field(Map<Value, Value> fields, String name) {
    Value value = fields.get(ValueFactory.newString(name));
    if (value == null) {
      throw new AssertionError("no " + name + " in " + fields);
    }
    return value;
  }

  /** The keys that it believes to be in a tier. */
  synchronized Set<Long> in(String medium) {
    Throwable failed = failure;
    if (failed != null) {
      throw new AssertionError(failed);
    }
    return new HashSet<>(residency.getOrDefault(medium, Set.of()));
  }

  /** The tokens of a block that it has heard of. */
  synchronized List<Integer> tokens(long key) {
    return tokens.getOrDefault(key, List.of());
  }

  synchronized int snapshots() {
    return snapshots;
  }

  synchronized int replays() {
    return replays;
  }

  synchronized int cleared() {
    return cleared;
  }

  @Override
  public void close() {
    closed = true;
    try {
      thread.join(5_000);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    context.close();
  }
}
