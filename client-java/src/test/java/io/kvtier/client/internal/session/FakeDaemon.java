package io.kvtier.client.internal.session;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.DaemonRegionDescriptor;
import io.kvtier.protocol.HandshakeDescriptor;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.RequestBody;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.RingConsumer;
import io.kvtier.protocol.RingProducer;
import io.kvtier.protocol.SessionRegion;
import io.kvtier.protocol.SessionRegionDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.EventFd;
import io.kvtier.protocol.linux.Futex;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.protocol.linux.UnixSocket;
import io.kvtier.protocol.linux.Words;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.LongConsumer;
import org.jspecify.annotations.Nullable;

/**
 * The other end of sessions, in this process, as ill-behaved as a test wants it. It polls, serves
 * one session at a time, and answers OK to whatever its script leaves alone.
 */
public final class FakeDaemon implements AutoCloseable {
  /** What to do with one request. */
  public interface Script {
    /** Whether it dealt with the request itself; the default answer is written otherwise. */
    boolean handle(Link link, Verb verb, long correlationId, int count);
  }

  /**
   * A request as it came.
   *
   * @param record all of it, in hexadecimal
   */
  public record Asked(
      Verb verb, int flags, long deadlineNs, int count, List<Long> ids, String record) {
    public boolean has(int flag) {
      return (flags & flag) != 0;
    }
  }

  /** What a long result says of a block. */
  public record Granted(
      Status status, long holdId, long offset, int length, int checksum, int flags) {
    public static final Granted MISS = new Granted(Status.MISS, 0, 0, 0, 0, 0);
  }

  /** One session. */
  public final class Link {
    public final SessionRegion region;
    public final RingProducer completions;
    private final RingConsumer requests;

    Link(SessionRegion region) {
      this.region = region;
      this.completions = region.completionProducer();
      this.requests = region.requestConsumer();
    }

    /** Grants blocks in slab 0, with leases that outlast the test. */
    public void grant(Verb verb, long correlationId, List<Granted> blocks) {
      claim(
          verb,
          correlationId,
          Status.OK,
          blocks.size(),
          at -> {
            MemorySegment segment = region.segment();
            Words.putLong(segment, at + CompletionDescriptor.VALUE_OFFSET, Long.MAX_VALUE / 2);
            long result = at + CompletionDescriptor.HEADER_BYTES;
            for (Granted block : blocks) {
              int status = block.status().code();
              Words.putShort(segment, result + CompletionDescriptor.BLOCK_STATUS_OFFSET, status);
              Words.putByte(
                  segment, result + CompletionDescriptor.BLOCK_FLAGS_OFFSET, block.flags());
              Words.putInt(
                  segment, result + CompletionDescriptor.BLOCK_CHECKSUM_OFFSET, block.checksum());
              Words.putLong(segment, result + CompletionDescriptor.BLOCK_ID_OFFSET, block.holdId());
              Words.putInt(
                  segment, result + CompletionDescriptor.BLOCK_LENGTH_OFFSET, block.length());
              Words.putLong(
                  segment, result + CompletionDescriptor.BLOCK_OFFSET_OFFSET, block.offset());
              result += Records.result(verb);
            }
          });
    }

    /** Writes a completion whose blocks are all zero, which is OK. */
    public void complete(Verb verb, long correlationId, Status status, int count) {
      claim(verb, correlationId, status, count, at -> {});
    }

    private void claim(
        Verb verb, long correlationId, Status status, int count, LongConsumer writer) {
      try {
        int bytes = Records.completion(verb, count);
        long at = completions.tryClaim(bytes);
        MemorySegment segment = region.segment();
        segment.asSlice(at, bytes).fill((byte) 0);
        Words.putInt(segment, at, bytes);
        Words.putShort(segment, at + CompletionDescriptor.VERB_OFFSET, verb.code());
        Words.putShort(segment, at + CompletionDescriptor.STATUS_OFFSET, status.code());
        Words.putLong(segment, at + CompletionDescriptor.CORRELATION_OFFSET, correlationId);
        Words.putInt(segment, at + CompletionDescriptor.COUNT_OFFSET, count);
        writer.accept(at);
        publish();
      } catch (ProtocolViolation e) {
        throw new IllegalStateException(e);
      }
    }

    public void publish() {
      completions.publish();
      wake();
    }

    public void wake() {
      Words.fullFence();
      MemorySegment segment = region.segment();
      if (Words.getIntVolatile(segment, SessionRegionDescriptor.CLIENT_WAITING_OFFSET) == 1) {
        Words.putIntVolatile(segment, SessionRegionDescriptor.CLIENT_WAITING_OFFSET, 0);
        Futex.wake(segment, SessionRegionDescriptor.CLIENT_WAITING_OFFSET, 1);
      }
    }

    private void serve() throws ProtocolViolation {
      while (requests.hasNext()) {
        MemorySegment segment = region.segment();
        long at = requests.offset();
        Verb verb = Verb.of(Words.getShort(segment, at + RequestDescriptor.VERB_OFFSET));
        int flags = Words.getShort(segment, at + RequestDescriptor.FLAGS_OFFSET);
        long id = Words.getLong(segment, at + RequestDescriptor.CORRELATION_OFFSET);
        int count = Words.getInt(segment, at + RequestDescriptor.COUNT_OFFSET);
        asked.add(read(segment, at, requests.recordBytes(), verb, flags, count));
        requests.skip(requests.recordBytes());
        requests.release();
        if (verb == null || (flags & RequestDescriptor.FLAG_SILENT) != 0) {
          silentRequests.incrementAndGet();
        } else if (!script.handle(this, verb, id, count)) {
          boolean blocks = verb.body() == RequestBody.KEYS || verb.body() == RequestBody.IDS;
          complete(verb, id, Status.OK, blocks ? count : 0);
        }
      }
    }
  }

  private static Asked read(
      MemorySegment segment, long at, int bytes, @Nullable Verb verb, int flags, int count) {
    List<Long> ids = new ArrayList<>();
    for (int i = 0; verb != null && verb.body() == RequestBody.IDS && i < count; i++) {
      long id = at + RequestDescriptor.HEADER_BYTES + (long) i * Records.idStride(flags);
      ids.add(Words.getLong(segment, id));
    }
    return new Asked(
        verb == null ? Verb.PING : verb,
        flags,
        Words.getLong(segment, at + RequestDescriptor.DEADLINE_OFFSET),
        count,
        ids,
        HexFormat.of().formatHex(segment.asSlice(at, bytes).toArray(ValueLayout.JAVA_BYTE)));
  }

  public static final int SLAB_BYTES = 1 << 20;

  /** All that was asked, in order. */
  public final Queue<Asked> asked = new ConcurrentLinkedQueue<>();

  /** The bytes of slab 0, the only one. */
  public final MemorySegment slab;

  public final AtomicInteger connections = new AtomicInteger();
  public final AtomicInteger silentRequests = new AtomicInteger();
  public volatile Script script = (link, verb, id, count) -> false;

  /** What it does all the time besides. */
  public volatile Consumer<Link> idle = link -> {};

  /** What a connection is told; anything but OK refuses it. */
  public volatile Status welcome = Status.OK;

  /** Whether it lets those who have said hello wait. */
  public volatile boolean holdsWelcome;

  public volatile int version = Protocol.VERSION;
  public volatile boolean hangUp;

  /** So many requests for slabs are denied with the next one after them only. */
  public final AtomicInteger slabsToHold = new AtomicInteger();

  /** So many requests for slabs are answered with more than a client takes. */
  public final AtomicInteger slabsToSpoil = new AtomicInteger();

  /** Whether clients take the daemon for asleep, and ring. */
  public volatile boolean asleep;

  private final Arena slabArena = Arena.ofShared();
  private final Descriptor slabMemory;
  private final List<byte[]> heldSlabs = new ArrayList<>();
  private volatile @Nullable Path doorbellInfo;
  private final UnixSocket listener;
  private final Thread thread;
  private volatile boolean running = true;
  private volatile @Nullable Throwable failure;

  public FakeDaemon(Path socket) throws IOException {
    slabMemory = SharedMemory.create("fake-slab", SLAB_BYTES);
    slab = SharedMemory.map(slabMemory, SLAB_BYTES, true, slabArena);
    listener = UnixSocket.listen(socket, 0600);
    thread = new Thread(this::run, "fake-daemon");
    thread.start();
  }

  private void run() {
    try {
      while (running) {
        UnixSocket connection = listener.accept();
        if (connection == null) {
          LockSupport.parkNanos(1_000_000);
          continue;
        }
        connections.incrementAndGet();
        try (connection) {
          serve(connection);
        }
      }
    } catch (IOException | ProtocolViolation | RuntimeException e) {
      failure = e;
    }
  }

  private void serve(UnixSocket connection) throws IOException, ProtocolViolation {
    UnixSocket.Message hello = null;
    while (running && hello == null) {
      hello = connection.receive(HandshakeDescriptor.MESSAGE_BYTES_MAX);
    }
    if (hello == null || hello.bytes().length == 0) {
      return;
    }
    while (running && holdsWelcome) {
      LockSupport.parkNanos(1_000_000);
    }
    MemorySegment fields = MemorySegment.ofArray(hello.bytes());
    int requestBytes =
        fields.get(ValueLayout.JAVA_INT_UNALIGNED, HandshakeDescriptor.HELLO_REQUEST_RING_OFFSET);
    int completionBytes =
        fields.get(
            ValueLayout.JAVA_INT_UNALIGNED, HandshakeDescriptor.HELLO_COMPLETION_RING_OFFSET);
    if (welcome != Status.OK) {
      connection.send(welcomeBytes("no guests today"));
      return;
    }
    try (Arena arena = Arena.ofShared();
        EventFd doorbell = EventFd.create();
        Descriptor daemon =
            SharedMemory.create("fake-daemon", DaemonRegionDescriptor.REGION_BYTES);
        Descriptor memory =
            SharedMemory.create(
                "fake-session", SessionRegion.regionBytes(requestBytes, completionBytes))) {
      MemorySegment words =
          SharedMemory.map(daemon, DaemonRegionDescriptor.REGION_BYTES, true, arena);
      Words.putLong(words, 0, DaemonRegionDescriptor.MAGIC);
      Words.putIntRelease(words, DaemonRegionDescriptor.READY_OFFSET, 1);
      Link link = new Link(SessionRegion.create(memory, 1, requestBytes, completionBytes, arena));
      connection.send(welcomeBytes("fake"), memory, doorbell.descriptor(), daemon);
      doorbellInfo = Path.of("/proc/self/fdinfo/" + doorbell.descriptor().number());
      while (running && !hangUp && !connection.awaitHangup(0)) {
        Words.putIntVolatile(words, DaemonRegionDescriptor.INDEX_WAITING_OFFSET, asleep ? 1 : 0);
        link.serve();
        serveSlab(connection);
        idle.accept(link);
        Thread.onSpinWait();
      }
      hangUp = false;
    }
  }

  private void serveSlab(UnixSocket connection) throws IOException {
    UnixSocket.Message question = connection.receive(HandshakeDescriptor.MESSAGE_BYTES_MAX);
    if (question == null || question.bytes().length < HandshakeDescriptor.QUESTION_BYTES) {
      return;
    }
    if (slabsToHold.getAndUpdate(count -> Math.max(0, count - 1)) > 0) {
      heldSlabs.add(question.bytes());
      return;
    }
    if (slabsToSpoil.getAndUpdate(count -> Math.max(0, count - 1)) > 0) {
      connection.send(new byte[HandshakeDescriptor.MESSAGE_BYTES_MAX + 1]);
      return;
    }
    for (byte[] late : heldSlabs) {
      connection.send(slabAnswer(late, Status.DENIED));
    }
    heldSlabs.clear();
    connection.send(slabAnswer(question.bytes(), Status.OK), slabMemory);
  }

  private static byte[] slabAnswer(byte[] question, Status status) {
    MemorySegment.ofArray(question)
        .set(
            ValueLayout.JAVA_SHORT_UNALIGNED,
            HandshakeDescriptor.ANSWER_STATUS_OFFSET,
            (short) status.code());
    return question;
  }

  /** How often the bell of the session was rung. */
  public long bells() throws IOException {
    Path info = doorbellInfo;
    if (info == null) {
      return 0;
    }
    for (String line : Files.readAllLines(info)) {
      if (line.startsWith("eventfd-count:")) {
        return Long.parseLong(line.substring(line.indexOf(':') + 1).trim(), 16);
      }
    }
    throw new IOException("no count in " + info);
  }

  /** The requests with this verb that came. */
  public List<Asked> asked(Verb verb) {
    return asked.stream().filter(one -> one.verb() == verb).toList();
  }

  private byte[] welcomeBytes(String text) {
    byte[] utf8 = text.getBytes(UTF_8);
    byte[] bytes = new byte[HandshakeDescriptor.WELCOME_TEXT_OFFSET + utf8.length];
    MemorySegment out = MemorySegment.ofArray(bytes);
    out.set(ValueLayout.JAVA_LONG_UNALIGNED, 0, HandshakeDescriptor.WELCOME_MAGIC);
    out.set(ValueLayout.JAVA_INT_UNALIGNED, HandshakeDescriptor.WELCOME_VERSION_OFFSET, version);
    out.set(
        ValueLayout.JAVA_SHORT_UNALIGNED,
        HandshakeDescriptor.WELCOME_STATUS_OFFSET,
        (short) welcome.code());
    out.set(
        ValueLayout.JAVA_SHORT_UNALIGNED,
        HandshakeDescriptor.WELCOME_TEXT_BYTES_OFFSET,
        (short) utf8.length);
    out.set(
        ValueLayout.JAVA_LONG_UNALIGNED, HandshakeDescriptor.WELCOME_SLAB_BYTES_OFFSET, SLAB_BYTES);
    out.set(ValueLayout.JAVA_INT_UNALIGNED, HandshakeDescriptor.WELCOME_SLAB_COUNT_OFFSET, 1);
    System.arraycopy(utf8, 0, bytes, HandshakeDescriptor.WELCOME_TEXT_OFFSET, utf8.length);
    return bytes;
  }

  @Override
  public void close() {
    running = false;
    try {
      thread.join();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    listener.close();
    slabArena.close();
    slabMemory.close();
    Throwable seen = failure;
    if (seen != null) {
      throw new AssertionError("the fake daemon failed", seen);
    }
  }
}
