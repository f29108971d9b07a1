package io.kvtier.daemon.session;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.IndexAgent;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.Counted;
import io.kvtier.protocol.HandshakeDescriptor;
import io.kvtier.protocol.Printable;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolVersion;
import io.kvtier.protocol.SessionRegion;
import io.kvtier.protocol.SocketPaths;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Utf8;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.DescriptorKind;
import io.kvtier.protocol.linux.Epoll;
import io.kvtier.protocol.linux.EventFd;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.protocol.linux.UnixSocket;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.host.SlabStore;
import io.kvtier.tiers.transfer.Joining;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.event.Level;

/**
 * Accepts connections, makes sessions of them, passes slabs, and notices when they end. It has a
 * thread of its own, which sleeps in epoll; what it tells the index, and the index it, goes through
 * queues.
 */
public final class SessionConductor implements Session.Owner, AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(SessionConductor.class);
  private static final long LISTENER_TAG = 0;
  private static final long BELL_TAG = 1;
  private static final long HELLO_TIMEOUT_NS = 5_000_000_000L;
  private static final long BRIEF_NS = 2_000_000_000L;

  /** A client's first request comes right behind the handshake. */
  private static final long UNUSED_NS = 100_000_000L;

  private static final int TICK_MS = 1000;
  private static final long CLOSE_MS = 5_000;
  private static final int ACCEPT_PAUSE_MS = 100;
  private static final long ACCEPT_PAUSE_NS = ACCEPT_PAUSE_MS * 1_000_000L;

  /** Those who connect without end shall not keep the thread from those who have. */
  private static final int ACCEPTS_PER_ROUND = 64;

  /** Some eight answers: clients ask one question at a time. */
  private static final int UNREAD_BYTES_MAX = 4096;

  /** Set in the tags of events that tell of a client's process, not of its socket. */
  private static final long PROCESS_BIT = 1L << 62;

  /** The part of a tenant's sessions that those have at most who may only read. */
  private static final double READERS_SHARE = 0.75;

  /** The most connections that have not said hello: a newcomer takes the place of the oldest. */
  private static final int SILENT_MAX = 256;

  private static final int NAME_BYTES_MAX = 256;

  /**
   * What a session needs of the daemon.
   *
   * @param takesMemory whether clients may pass descriptors of a device's memory
   */
  public record Environment(
      String version,
      Descriptor daemonRegion,
      SlabStore slabs,
      IndexAgent index,
      Runnable indexBell,
      Epoll indexEpoll,
      Counters counters,
      PeerPolicy peers,
      int sessionsMax,
      long ringBytesMax,
      Tenants tenants,
      Tenants.Regions slabTenants,
      BooleanSupplier takesMemory) {}

  private static final class Connection {
    final long tag;
    final UnixSocket socket;
    final UnixSocket.PeerCredentials peer;
    final long acceptedNs;
    @Nullable Session session;
    @Nullable EventFd doorbell;
    @Nullable Arena arena;
    @Nullable Descriptor process;
    @Nullable Grant grant;
    RingBudget.@Nullable Rings rings;
    int tenant;
    boolean socketClosed;

    /** Whether a closer has the socket: then that is closed when the closer is through. */
    boolean isAside;

    boolean closeOffered;

    /** The client has closed its end, which it does when it writes to no slot any more. */
    boolean hasHungUp;

    Connection(long tag, UnixSocket socket, UnixSocket.PeerCredentials peer) {
      this.tag = tag;
      this.socket = socket;
      this.peer = peer;
      this.acceptedNs = System.nanoTime();
    }
  }

  private sealed interface Notice {
    Session session();

    record End(Session session, Status reason, String why) implements Notice {}

    record Released(Session session) implements Notice {}
  }

  /** What became of a descriptor that a client has passed. */
  private sealed interface Passed {
    /** What is closed when the question has its answer. */
    default List<Descriptor> unwanted() {
      return List.of();
    }

    record Memory(Descriptor descriptor) implements Passed {}

    /** None, or several. */
    record OfAnotherCount(List<Descriptor> unwanted) implements Passed {}

    /** There is no use for it here. */
    record Unwanted() implements Passed {}

    /** The connection ends. */
    record Wrong(String why, List<Descriptor> unwanted) implements Passed {}
  }

  /** A question whose descriptor was taken on another thread: it can be answered now. */
  @SuppressWarnings("ArrayRecordComponent") // these are never compared
  private record Aside(Connection connection, byte[] question, Passed passed) {}

  private final UnixSocket listener;
  private final Environment environment;
  private final Epoll epoll;
  private final EventFd bell;
  private final Map<Long, Connection> connections = new HashMap<>();

  /** Those that have a session, oldest first. */
  private final Map<Long, Connection> bySession = new LinkedHashMap<>();

  /** Those who have not said hello, by their tags, in the order in which they came. */
  private final Map<Long, Connection> silent = new LinkedHashMap<>();

  private final RingBudget rings;
  private final UnreadAnswers unread = new UnreadAnswers();
  private final Closer closer = new Closer();
  private final ConcurrentLinkedQueue<Aside> aside = new ConcurrentLinkedQueue<>();
  private final ConcurrentLinkedQueue<Notice> notices = new ConcurrentLinkedQueue<>();
  private final ArrayDeque<Connection> closing = new ArrayDeque<>();
  private final Thread thread;
  private volatile boolean running = true;
  private boolean pausesListening;
  private long listensAgainNs;
  private long nextTag = 2;
  private long nextSessionId = 1;

  /** Starts to accept. */
  public SessionConductor(UnixSocket listener, Environment environment) throws IOException {
    this.listener = listener;
    this.environment = environment;
    this.rings = new RingBudget(environment.ringBytesMax, environment.tenants);
    this.epoll = Epoll.create();
    this.bell = EventFd.create();
    epoll.add(listener.descriptor(), Epoll.IN, LISTENER_TAG);
    epoll.add(bell.descriptor(), Epoll.IN | Epoll.EDGE, BELL_TAG);
    thread = Thread.ofPlatform().daemon().name("kvtier-sessions").unstarted(this::run);
  }

  /** Begins. */
  public void start() {
    thread.start();
  }

  // ---- called by the index
  // -------------------------------------------------------------------------------------

  @Override
  public void end(Session session, Status reason, String why) {
    notices.add(new Notice.End(session, reason, why));
    bell.ring();
  }

  @Override
  public void released(Session session) {
    notices.add(new Notice.Released(session));
    bell.ring();
  }

  // ---- the thread
  // ----------------------------------------------------------------------------------------------

  private void run() {
    try {
      serve();
    } catch (Throwable t) {
      // A daemon that serves its old sessions and takes no new ones would look alive for ever.
      LOG.error("sessions can't be served any more; the daemon stops", t);
      Runtime.getRuntime().halt(70);
    }
  }

  private void serve() {
    while (running) {
      int count = epoll.await(pausesListening ? ACCEPT_PAUSE_MS : TICK_MS);
      for (int i = 0; i < count; i++) {
        long tag = epoll.tag(i);
        if (tag == LISTENER_TAG) {
          acceptAll();
        } else if ((tag & PROCESS_BIT) != 0) {
          processEnded(connections.get(tag & ~PROCESS_BIT));
        } else if (tag != BELL_TAG) {
          Connection connection = connections.get(tag);
          if (connection != null) {
            receive(connection);
          }
        }
      }
      takeNotices();
      answerAside();
      offerCloses();
      unread.look();
      dropSilentConnections();
      listenAgain();
    }
  }

  private void acceptAll() {
    try {
      for (int i = 0; i < ACCEPTS_PER_ROUND; i++) {
        UnixSocket socket = listener.accept();
        if (socket == null) {
          return;
        }
        take(socket);
      }
    } catch (IOException e) {
      LOG.warn("connections can't be accepted for a while: {}", e.getMessage());
      pauseListening();
    }
  }

  private void take(UnixSocket socket) {
    try {
      Connection connection = new Connection(nextTag++, socket, socket.peerCredentials());
      socket.limitUnread(UNREAD_BYTES_MAX);
      epoll.add(socket.descriptor(), Epoll.IN, connection.tag);
      connections.put(connection.tag, connection);
      if (silent.size() >= SILENT_MAX) {
        Connection oldest = silent.values().iterator().next();
        environment.counters.countRefusal();
        LOG.info(
            "connection of process {} closed: it sent nothing, and others wait", oldest.peer.pid());
        disconnect(oldest);
      }
      silent.put(connection.tag, connection);
    } catch (IOException e) {
      LOG.warn("a connection could not be taken: {}", e.getMessage());
      socket.close();
    }
  }

  /** What can't be accepted stays readable: without a pause the thread would spin on it. */
  private void pauseListening() {
    try {
      epoll.remove(listener.descriptor());
      listensAgainNs = System.nanoTime() + ACCEPT_PAUSE_NS;
      pausesListening = true;
    } catch (IOException e) {
      LOG.debug("{}", e.getMessage());
    }
  }

  private void listenAgain() {
    if (pausesListening && System.nanoTime() - listensAgainNs >= 0) {
      try {
        epoll.add(listener.descriptor(), Epoll.IN, LISTENER_TAG);
        pausesListening = false;
      } catch (IOException e) {
        LOG.warn("connections can't be accepted yet: {}", e.getMessage());
        listensAgainNs = System.nanoTime() + ACCEPT_PAUSE_NS;
      }
    }
  }

  private void receive(Connection connection) {
    try {
      UnixSocket.Waiting waiting = connection.socket.peek(HandshakeDescriptor.MESSAGE_BYTES_MAX);
      if (waiting == null) {
        return;
      }
      Session session = connection.session;
      boolean isPassing = session != null && isPassing(waiting.bytes());
      if (waiting.hasDescriptors() && !isPassing) {
        throw new IOException("it passed descriptors where none are expected");
      }
      if (waiting.hasDescriptors()) {
        takeAside(connection, waiting.bytes());
        return;
      }
      UnixSocket.Message message = connection.socket.receive(HandshakeDescriptor.MESSAGE_BYTES_MAX);
      if (message == null) {
        return;
      }
      if (isPassing) {
        answerWithout(connection, waiting.bytes());
      } else if (message.bytes().length == 0) {
        connection.hasHungUp = true;
        disconnect(connection);
      } else if (session == null) {
        hello(connection, message.bytes());
      } else {
        mapSlab(connection, session, message.bytes());
      }
    } catch (IOException e) {
      LOG.info("connection of process {} ends: {}", connection.peer.pid(), e.getMessage());
      disconnect(connection);
    }
  }

  private void hello(Connection connection, byte[] bytes) throws IOException {
    MemorySegment hello = aligned(bytes);
    if (bytes.length < HandshakeDescriptor.HELLO_NAME_OFFSET
        || Words.getLong(hello, 0) != HandshakeDescriptor.HELLO_MAGIC) {
      refuse(
          connection,
          Status.INVALID_ARGUMENT,
          "the "
              + bytes.length
              + " bytes that came are no hello of a kvtier client: is socket.path given to another"
              + " program, such as one that speaks gRPC?");
      return;
    }
    int version = Words.getInt(hello, HandshakeDescriptor.HELLO_VERSION_OFFSET);
    if (!ProtocolVersion.isCompatible(version)) {
      refuse(
          connection,
          Status.VERSION_MISMATCH,
          ProtocolVersion.mismatch("kvtierd " + environment.version, Protocol.VERSION, version));
      return;
    }
    Grant grant = environment.peers.grantOf(connection.peer);
    if (grant.role() == Role.NONE) {
      refuse(connection, Status.DENIED, environment.peers.refusal(connection.peer));
      return;
    }
    if (bySession.size() >= environment.sessionsMax) {
      int count = bySession.size();
      String hint = letOneGo(each -> true);
      refuse(
          connection,
          Status.BUSY,
          "the limit of " + Counted.of(count, "session") + " is reached (limits.sessions)" + hint);
      return;
    }
    if (unread.isAtLimit(connection.peer.uid())) {
      refuse(
          connection,
          Status.BUSY,
          "this user has "
              + UnreadAnswers.OF_A_USER_MAX
              + " connections that are over and whose answers, with descriptors, its processes have"
              + " not read: end those processes");
      return;
    }
    long ofTenant =
        bySession.values().stream().filter(other -> other.tenant == grant.tenant()).count();
    if (ofTenant >= environment.tenants.shareOf(environment.sessionsMax, grant.tenant())) {
      String hint = letOneGo(each -> each.tenant == grant.tenant());
      refuse(
          connection,
          Status.BUSY,
          "this tenant has "
              + Counted.of(ofTenant, "session")
              + ", its share of limits.sessions"
              + hint);
      return;
    }
    if (RingBudget.isReader(grant)) {
      Predicate<Connection> isReader =
          each ->
              each.grant != null
                  && each.grant.tenant() == grant.tenant()
                  && RingBudget.isReader(each.grant);
      long readers = bySession.values().stream().filter(isReader).count();
      int share = environment.tenants.shareOf(environment.sessionsMax, grant.tenant());
      if (readers >= Math.max(1, (int) (share * READERS_SHARE))) {
        String hint = letOneGo(isReader);
        refuse(
            connection,
            Status.BUSY,
            Counted.of(readers, "session")
                + " with the role read exist already, the share of this role in limits.sessions"
                + hint);
        return;
      }
    }
    int requestBytes = Words.getInt(hello, HandshakeDescriptor.HELLO_REQUEST_RING_OFFSET);
    int completionBytes = Words.getInt(hello, HandshakeDescriptor.HELLO_COMPLETION_RING_OFFSET);
    if (!isRingSize(requestBytes) || !isRingSize(completionBytes)) {
      refuse(
          connection,
          Status.INVALID_ARGUMENT,
          "rings of "
              + requestBytes
              + " and "
              + completionBytes
              + " bytes; expected powers of two from "
              + Protocol.RING_BYTES_MIN
              + " to "
              + Protocol.RING_BYTES_MAX);
      return;
    }
    RingBudget.Rings taken = rings.take(grant, requestBytes, completionBytes);
    if (taken == null) {
      String hint =
          letOneGo(each ->
              each.tenant == grant.tenant()
                  && each.grant != null
                  && each.grant.role() == grant.role());
      refuse(
          connection,
          Status.BUSY,
          "the rings of this tenant's sessions"
              + (RingBudget.isReader(grant) ? " that may only read" : "")
              + " take their share of limits.ring_bytes, "
              + rings.share(grant)
              + " bytes, and a session needs "
              + RingBudget.Rings.SMALLEST.bytes()
              + " at least"
              + hint);
      return;
    }
    connection.grant = grant;
    connection.rings = taken;
    int nameBytes =
        Math.min(
            Words.getShort(hello, HandshakeDescriptor.HELLO_NAME_BYTES_OFFSET),
            bytes.length - HandshakeDescriptor.HELLO_NAME_OFFSET);
    String name;
    try {
      name = nameOf(bytes, nameBytes);
    } catch (IllegalArgumentException e) {
      refuse(
          connection,
          Status.INVALID_ARGUMENT,
          "the client's name is " + e.getMessage() + "; names are UTF-8");
      return;
    }
    open(connection, name, grant, taken);
  }

  /** A client's name, of which so much is kept: it goes into logs and onto terminals. */
  private static String nameOf(byte[] hello, int length) {
    int kept = Math.min(length, NAME_BYTES_MAX);
    if (length > NAME_BYTES_MAX) {
      while (kept > 0 && (hello[HandshakeDescriptor.HELLO_NAME_OFFSET + kept - 1] & 0xc0) == 0x80) {
        kept--;
      }
      kept = Math.max(0, kept - 1);
    }
    return Printable.of(Utf8.decode(hello, HandshakeDescriptor.HELLO_NAME_OFFSET, kept));
  }

  /**
   * Where there are too many sessions, the oldest that has asked for nothing leaves for others: who
   * opens sessions and leaves them so keeps nobody else out.
   *
   * @return what to tell the newcomer, who comes again
   */
  private String letOneGo(Predicate<Connection> isOne) {
    long now = System.nanoTime();
    for (Connection each : bySession.values()) {
      Session session = each.session;
      if (session != null
          && !session.isUsed()
          && !each.closeOffered
          && now - each.acceptedNs > UNUSED_NS
          && isOne.test(each)) {
        LOG.info(
            "session {} of process {} closed: it sent no request, and others wait",
            session.id(),
            each.peer.pid());
        disconnect(each);
        return "; one that has asked for nothing leaves: try again";
      }
    }
    return "";
  }

  private static boolean isRingSize(int bytes) {
    return bytes >= Protocol.RING_BYTES_MIN
        && bytes <= Protocol.RING_BYTES_MAX
        && Integer.bitCount(bytes) == 1;
  }

  private void open(Connection connection, String name, Grant grant, RingBudget.Rings rings)
      throws IOException {
    watchProcess(connection);
    long id = nextSessionId++;
    Arena arena = Arena.ofShared();
    connection.arena = arena;
    try (Descriptor memory = SharedMemory.create("kvtier-session-" + id, rings.bytes())) {
      SessionRegion region =
          SessionRegion.create(memory, id, rings.requestBytes(), rings.completionBytes(), arena);
      EventFd doorbell = EventFd.create();
      connection.doorbell = doorbell;
      environment.indexEpoll.add(doorbell.descriptor(), Epoll.IN | Epoll.EDGE, id);
      Session session =
          new Session(
              id,
              name,
              connection.peer.pid(),
              connection.peer.uid(),
              grant,
              region,
              environment.slabs.slabs(),
              this);
      if (!environment.index.offerOpen(session)) {
        refuse(connection, Status.BUSY, "too many connections at once: try again");
        return;
      }
      if (environment.takesMemory.getAsBoolean()) {
        connection.socket.takeDescriptors();
      }
      connection.session = session;
      connection.tenant = grant.tenant();
      silent.remove(connection.tag);
      bySession.put(id, connection);
      environment.indexBell.run();
      connection.socket.send(
          welcome(Status.OK, id, environment.version),
          memory,
          doorbell.descriptor(),
          environment.daemonRegion);
      LOG.info(
          "session {} opened by process {} (user {}): {}",
          id,
          connection.peer.pid(),
          connection.peer.uid(),
          name);
    }
  }

  /**
   * A session ends with the process that connected, also where a child of it holds the socket, too:
   * nobody can tell whom that child takes itself for, and what is leased and reserved would stay
   * so.
   */
  private void watchProcess(Connection connection) throws IOException {
    Descriptor process = connection.socket.peerProcess(connection.peer);
    if (process != null) {
      connection.process = process;
      epoll.add(process, Epoll.IN, connection.tag | PROCESS_BIT);
    }
  }

  private void processEnded(@Nullable Connection connection) {
    if (connection != null && !connection.socketClosed) {
      LOG.debug("process {} has ended", connection.peer.pid());
      disconnect(connection);
    }
  }

  private byte[] welcome(Status status, long sessionId, String text) {
    byte[] utf8 = Printable.of(text).getBytes(StandardCharsets.UTF_8);
    byte[] bytes = new byte[HandshakeDescriptor.WELCOME_TEXT_OFFSET + utf8.length];
    MemorySegment out = aligned(bytes);
    Words.putLong(out, 0, HandshakeDescriptor.WELCOME_MAGIC);
    Words.putInt(out, HandshakeDescriptor.WELCOME_VERSION_OFFSET, Protocol.VERSION);
    Words.putShort(out, HandshakeDescriptor.WELCOME_STATUS_OFFSET, status.code());
    Words.putShort(out, HandshakeDescriptor.WELCOME_TEXT_BYTES_OFFSET, utf8.length);
    Words.putLong(out, HandshakeDescriptor.WELCOME_SESSION_ID_OFFSET, sessionId);
    Words.putLong(
        out, HandshakeDescriptor.WELCOME_SLAB_BYTES_OFFSET, environment.slabs.slabBytes());
    Words.putInt(out, HandshakeDescriptor.WELCOME_SLAB_COUNT_OFFSET, environment.slabs.slabs());
    byte[] result = toBytes(out);
    System.arraycopy(utf8, 0, result, HandshakeDescriptor.WELCOME_TEXT_OFFSET, utf8.length);
    return Arrays.copyOf(result, bytes.length);
  }

  /** Byte arrays are not aligned for longs: messages are read and made in arrays of longs. */
  private static MemorySegment aligned(byte[] bytes) {
    MemorySegment segment = MemorySegment.ofArray(new long[(bytes.length + 7) / 8 + 3]);
    MemorySegment.copy(MemorySegment.ofArray(bytes), 0, segment, 0, bytes.length);
    return segment;
  }

  private static byte[] toBytes(MemorySegment segment) {
    byte[] bytes = new byte[(int) segment.byteSize()];
    MemorySegment.copy(segment, 0, MemorySegment.ofArray(bytes), 0, bytes.length);
    return bytes;
  }

  private void refuse(Connection connection, Status status, String why) {
    environment.counters.countRefusal();
    LOG.warn("process {} (user {}) refused: {}", connection.peer.pid(), connection.peer.uid(), why);
    try {
      connection.socket.send(welcome(status, 0, why));
    } catch (IOException e) {
      LOG.debug("the refusal did not arrive: {}", e.getMessage());
    }
    disconnect(connection);
  }

  private void mapSlab(Connection connection, Session session, byte[] bytes) throws IOException {
    MemorySegment message = aligned(bytes);
    if (bytes.length != HandshakeDescriptor.QUESTION_BYTES
        || Words.getLong(message, 0) != HandshakeDescriptor.MAP_SLAB_MAGIC) {
      throw new IOException("that was not a request to map a slab");
    }
    int slab = Words.getInt(message, HandshakeDescriptor.QUESTION_NUMBER_OFFSET);
    boolean write = Words.getInt(message, HandshakeDescriptor.QUESTION_WORD_OFFSET) != 0;
    Status status =
        slab < 0 || slab >= environment.slabs.slabs()
            ? Status.INVALID_ARGUMENT
            : environment.slabTenants.tenantOf(slab) != session.tenant()
                    || (write && !session.mayWrite(slab))
                ? Status.DENIED
                : Status.OK;
    byte[] answer = answer(message, status);
    if (status == Status.OK) {
      connection.socket.send(answer, environment.slabs.descriptor(slab, write));
    } else {
      connection.socket.send(answer);
    }
  }

  private static boolean isPassing(byte[] bytes) {
    return bytes.length == HandshakeDescriptor.QUESTION_BYTES
        && Words.getLong(aligned(bytes), 0) == HandshakeDescriptor.PASS_MEMORY_MAGIC;
  }

  /**
   * Takes a question with the descriptors that it passes, on a thread that nothing depends on: how
   * long it takes to let go of what is no memory is its sender's choice.
   */
  private void takeAside(Connection connection, byte[] question) throws IOException {
    boolean takesMemory = environment.takesMemory.getAsBoolean();
    epoll.remove(connection.socket.descriptor());
    connection.isAside = true;
    boolean isTaken =
        closer.run(
            connection.peer.pid(),
            connection.peer.uid(),
            () -> {
              Passed passed = takesMemory ? taken(connection) : dropped(connection);
              aside.add(new Aside(connection, question, passed));
              bell.ring();
              // Its connection need not wait for that.
              passed.unwanted().forEach(UnixSocket::discard);
            });
    if (!isTaken) {
      connection.isAside = false;
      throw new IOException("too much that was passed does not close");
    }
  }

  private static void answerWithout(Connection connection, byte[] question) throws IOException {
    connection.socket.send(answer(aligned(question), Status.INVALID_ARGUMENT));
  }

  /** Nobody here has a use for it. */
  private static Passed dropped(Connection connection) {
    connection.socket.drop();
    return new Passed.Unwanted();
  }

  private static Passed taken(Connection connection) {
    try {
      UnixSocket.Message message = connection.socket.receive(HandshakeDescriptor.MESSAGE_BYTES_MAX);
      List<Descriptor> descriptors = message == null ? List.of() : message.descriptors();
      if (descriptors.size() == 1 && DescriptorKind.isMemory(descriptors.getFirst())) {
        return new Passed.Memory(descriptors.getFirst());
      }
      boolean isMemory = descriptors.stream().allMatch(DescriptorKind::isMemory);
      return isMemory
          ? new Passed.OfAnotherCount(descriptors)
          : new Passed.Wrong("it passed a descriptor of something that is no memory", descriptors);
    } catch (IOException e) {
      return new Passed.Wrong(String.valueOf(e.getMessage()), List.of());
    }
  }

  private void answerAside() {
    for (Aside one = aside.poll(); one != null; one = aside.poll()) {
      Connection connection = one.connection;
      Session session = connection.session;
      connection.isAside = false;
      if (connection.socketClosed || session == null) {
        if (one.passed instanceof Passed.Memory memory) {
          UnixSocket.discard(memory.descriptor);
        }
        endSocket(connection);
        continue;
      }
      try {
        epoll.add(connection.socket.descriptor(), Epoll.IN, connection.tag);
        int number =
            Words.getInt(aligned(one.question), HandshakeDescriptor.QUESTION_NUMBER_OFFSET);
        Status status =
            switch (one.passed) {
              case Passed.Memory memory -> session.passedMemory().give(number, memory.descriptor);
              case Passed.OfAnotherCount _ -> Status.INVALID_ARGUMENT;
              case Passed.Unwanted _ -> Status.DENIED;
              case Passed.Wrong wrong -> throw new IOException(wrong.why);
            };
        connection.socket.send(answer(aligned(one.question), status));
      } catch (IOException e) {
        LOG.info("connection of process {} ends: {}", connection.peer.pid(), e.getMessage());
        disconnect(connection);
      }
    }
  }

  /** A question with the status of its answer, which lies where both kinds have it. */
  private static byte[] answer(MemorySegment question, Status status) {
    Words.putInt(question, HandshakeDescriptor.ANSWER_STATUS_OFFSET, 0);
    Words.putShort(question, HandshakeDescriptor.ANSWER_STATUS_OFFSET, status.code());
    return Arrays.copyOf(toBytes(question), HandshakeDescriptor.QUESTION_BYTES);
  }

  /** The connection is over; its session, if it has one, is given to the index to release. */
  private void disconnect(Connection connection) {
    closeSocket(connection);
    if (connection.session == null) {
      forget(connection);
    } else if (!connection.closeOffered) {
      closing.add(connection);
      offerCloses();
    }
  }

  private void closeSocket(Connection connection) {
    if (!connection.socketClosed) {
      connection.socketClosed = true;
      try {
        epoll.remove(connection.socket.descriptor());
      } catch (IOException e) {
        LOG.debug("{}", e.getMessage());
      }
      Descriptor process = connection.process;
      if (process != null) {
        try {
          epoll.remove(process);
        } catch (IOException e) {
          LOG.debug("{}", e.getMessage());
        }
        process.close();
      }
      if (!connection.isAside) {
        endSocket(connection);
      }
    }
  }

  /** Root and the daemon's own user can do worse than to leave answers unread. */
  private static boolean isTrusted(Connection connection) {
    int user = connection.peer.uid();
    return user == 0 || user == SocketPaths.uid();
  }

  private void endSocket(Connection connection) {
    UnixSocket socket = connection.socket;
    boolean sentDescriptors = connection.session != null;
    if (socket.endHoldsDescriptors()) {
      boolean _ = closer.run(connection.peer.pid(), connection.peer.uid(), socket::close);
    } else if (sentDescriptors && !isTrusted(connection) && socket.isUnread()) {
      unread.add(socket, connection.peer.uid());
    } else {
      socket.close();
    }
  }

  private void offerCloses() {
    while (!closing.isEmpty()) {
      Connection connection = closing.peek();
      Session session = connection.session;
      if (session != null && !connection.closeOffered) {
        if (!environment.index.offerClose(session, connection.hasHungUp)) {
          return;
        }
        connection.closeOffered = true;
        environment.indexBell.run();
      }
      closing.poll();
    }
  }

  private void takeNotices() {
    for (Notice notice = notices.poll(); notice != null; notice = notices.poll()) {
      Connection connection = bySession.get(notice.session().id());
      if (connection == null) {
        continue;
      }
      switch (notice) {
        case Notice.End end -> {
          LOG.warn(
              "session {} of process {} ended: {}: {}",
              end.session().id(),
              connection.peer.pid(),
              end.reason(),
              end.why());
          disconnect(connection);
        }
        case Notice.Released released -> {
          // Who only asked something and went, as each command does, is told of once.
          boolean isBrief = System.nanoTime() - connection.acceptedNs < BRIEF_NS;
          LOG.atLevel(isBrief ? Level.DEBUG : Level.INFO)
              .log("session {} closed", released.session().id());
          closeSocket(connection);
          forget(connection);
        }
      }
    }
  }

  private void forget(Connection connection) {
    connections.remove(connection.tag);
    silent.remove(connection.tag);
    if (connection.grant != null && connection.rings != null) {
      rings.release(connection.grant, connection.rings);
      connection.rings = null;
    }
    Session session = connection.session;
    if (session != null) {
      bySession.remove(session.id());
      session.passedMemory().close();
    }
    EventFd doorbell = connection.doorbell;
    if (doorbell != null) {
      try {
        environment.indexEpoll.remove(doorbell.descriptor());
      } catch (IOException e) {
        LOG.debug("{}", e.getMessage());
      }
      doorbell.close();
    }
    Arena arena = connection.arena;
    if (arena != null) {
      arena.close();
    }
  }

  private void dropSilentConnections() {
    long now = System.nanoTime();
    while (!silent.isEmpty()) {
      Connection oldest = silent.values().iterator().next();
      if (now - oldest.acceptedNs <= HELLO_TIMEOUT_NS) {
        return;
      }
      LOG.info("connection of process {} closed: it sent nothing in time", oldest.peer.pid());
      disconnect(oldest);
    }
  }

  @Override
  public void close() {
    running = false;
    bell.ring();
    if (!Joining.within(thread, CLOSE_MS)) {
      return;
    }
    for (Connection connection : connections.values()) {
      closeSocket(connection);
    }
    unread.close();
    listener.close();
    epoll.close();
    bell.close();
  }
}
