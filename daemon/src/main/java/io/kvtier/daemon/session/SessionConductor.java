package io.kvtier.daemon.session;

import io.kvtier.daemon.index.IndexAgent;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.session.IndexProcessor;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.HandshakeDescriptor;
import io.kvtier.protocol.SessionRegion;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.Epoll;
import io.kvtier.protocol.linux.EventFd;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.protocol.linux.UnixSocket;
import io.kvtier.tiers.host.SlabStore;
import io.kvtier.tiers.transfer.Joining;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.Collection;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.event.Level;

/**
 * Accepts connections, makes sessions of them, passes slabs, and notices when they end. It has its
 * own thread, which sleeps in epoll. Queues connect this thread and the index.
 */
public final class SessionConductor implements Session.Owner, AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(SessionConductor.class);
  private static final long BELL_TAG = 0;

  /** The tag of the listener; those of connections are higher. */
  private static final long LISTENER_TAG = 1;

  private static final long BRIEF_NS = 2_000_000_000L;

  /**
   * Time after which a session without a request can be ended: a client's first request follows the
   * handshake at once.
   */
  private static final long UNUSED_NS = 100_000_000L;

  private static final int TICK_MS = 1000;
  private static final long CLOSE_MS = 5_000;

  /** Marks tags of events about a client's process, not about its socket. */
  private static final long PROCESS_BIT = 1L << 62;

  /**
   * The parts of the daemon that sessions need.
   *
   * @param version the daemon's version
   */
  public record Environment(
      String version, Counters counters, Access access, Memory memory, IndexSide index) {}

  /** The clients that may have sessions, and the limits of sessions. */
  public record Access(PeerPolicy peers, Tenants tenants, int sessionsMax, long ringBytesMax) {}

  /**
   * The memory that passes between daemon and clients.
   *
   * @param daemonRegion the daemon's region, read-only
   * @param slabTenants the tenant of each slab
   * @param takesMemory whether clients may pass descriptors of a device's memory
   */
  public record Memory(
      Descriptor daemonRegion,
      SlabStore slabs,
      Tenants.Regions slabTenants,
      BooleanSupplier takesMemory) {}

  /** The index and the ways to wake it. */
  public record IndexSide(IndexAgent agent, Runnable bell, Epoll epoll, IndexProcessor processor) {}

  private sealed interface Notice {
    Session session();

    record End(Session session, Status reason, String why) implements Notice {}

    record Released(Session session) implements Notice {}
  }

  private final Environment environment;
  private final Epoll epoll;
  private final EventFd bell;
  private final UnreadAnswers unread = new UnreadAnswers();
  private final Connections connections;
  private final Newcomers newcomers;
  private final Acceptor acceptor;
  private final Questions questions;
  private final ConcurrentLinkedQueue<Notice> notices = new ConcurrentLinkedQueue<>();
  private final Thread thread;
  private volatile boolean running = true;
  private long nextSessionId = 1;

  /** Starts to accept. */
  public SessionConductor(UnixSocket listener, Environment environment) throws IOException {
    this.environment = environment;
    Access access = environment.access;
    RingBudget rings = new RingBudget(access.ringBytesMax, access.tenants);
    Closer closer = new Closer();
    this.newcomers = new Newcomers(environment.version, access, rings, unread, new OpenSessions());
    this.epoll = Epoll.create();
    this.bell = EventFd.create();
    this.connections = new Connections(epoll, environment.index, rings, unread, closer);
    PassedDescriptors passed =
        new PassedDescriptors(closer, environment.memory.takesMemory, bell::ring);
    this.questions = new Questions(environment.memory, epoll, connections, passed);
    this.acceptor = new Acceptor(listener, epoll, LISTENER_TAG, connections, environment.counters);
    epoll.add(bell.descriptor(), Epoll.IN | Epoll.EDGE, BELL_TAG);
    thread = Thread.ofPlatform().daemon().name("kvtier-sessions").unstarted(this::run);
  }

  /** The open sessions, as {@link Newcomers} sees them. */
  private final class OpenSessions implements Newcomers.Sessions {
    @Override
    public Collection<Connection> open() {
      return connections.withSession();
    }

    @Override
    public String letOneGo(Predicate<Connection> isOne) {
      return endOneUnused(isOne);
    }
  }

  /** Starts the thread. */
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

  @Override
  public void wake(Session session) {
    environment.index.processor.woken(session.clientCpu());
    Session.Owner.super.wake(session);
  }

  // ---- the thread
  // ----------------------------------------------------------------------------------------------

  private void run() {
    try {
      serve();
    } catch (Throwable t) {
      // Without this thread the daemon would serve old sessions, take no new ones, and look
      // alive for ever.
      LOG.error("sessions can't be served any more; the daemon stops", t);
      Runtime.getRuntime().halt(70);
    }
  }

  private void serve() {
    while (running) {
      int count = epoll.await(acceptor.sleepMs(TICK_MS));
      for (int i = 0; i < count; i++) {
        long tag = epoll.tag(i);
        if (tag == LISTENER_TAG) {
          acceptor.acceptAll();
        } else if ((tag & PROCESS_BIT) != 0) {
          processEnded(connections.byTag(tag & ~PROCESS_BIT));
        } else if (tag != BELL_TAG) {
          Connection connection = connections.byTag(tag);
          if (connection != null) {
            receive(connection);
          }
        }
      }
      takeNotices();
      questions.answerAside();
      connections.offerCloses();
      unread.look();
      acceptor.dropSilent();
      acceptor.listenAgain();
    }
  }

  private void receive(Connection connection) {
    try {
      UnixSocket.Waiting waiting = connection.socket.peek(HandshakeDescriptor.MESSAGE_BYTES_MAX);
      if (waiting == null) {
        return;
      }
      Session session = connection.session;
      boolean isPassing = session != null && Messages.isPassing(waiting.bytes());
      if (waiting.hasDescriptors() && !isPassing) {
        throw new IOException("it passed descriptors where none are expected");
      }
      if (waiting.hasDescriptors()) {
        questions.takeAside(connection, waiting.bytes());
        return;
      }
      UnixSocket.Message message = connection.socket.receive(HandshakeDescriptor.MESSAGE_BYTES_MAX);
      if (message == null) {
        return;
      }
      if (isPassing) {
        connection.socket.send(Messages.answer(waiting.bytes(), Status.INVALID_ARGUMENT));
      } else if (message.bytes().length == 0) {
        connection.hasHungUp = true;
        connections.end(connection);
      } else if (session == null) {
        hello(connection, message.bytes());
      } else {
        questions.mapSlab(connection, session, message.bytes());
      }
    } catch (IOException e) {
      LOG.info("connection of process {} ends: {}", connection.peer.pid(), e.getMessage());
      connections.end(connection);
    }
  }

  private void hello(Connection connection, byte[] bytes) throws IOException {
    switch (newcomers.decide(connection.peer, bytes)) {
      case Newcomers.Refused refused -> refuse(connection, refused.status(), refused.why());
      case Newcomers.Accepted accepted -> {
        connection.grant = accepted.grant();
        connection.rings = accepted.rings();
        open(connection, accepted);
      }
    }
  }

  /**
   * Ends the oldest session without a request, so that a client with unused sessions keeps no other
   * client out.
   *
   * @return words that tell the newcomer to try again; empty if no session was ended
   */
  private String endOneUnused(Predicate<Connection> isOne) {
    long now = System.nanoTime();
    for (Connection each : connections.withSession()) {
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
        connections.end(each);
        return "; one that has asked for nothing leaves: try again";
      }
    }
    return "";
  }

  private void open(Connection connection, Newcomers.Accepted accepted) throws IOException {
    RingBudget.Rings taken = accepted.rings();
    watchProcess(connection);
    long id = nextSessionId++;
    Arena arena = Arena.ofShared();
    connection.arena = arena;
    try (Descriptor memory = SharedMemory.create("kvtier-session-" + id, taken.bytes())) {
      SessionRegion region =
          SessionRegion.create(memory, id, taken.requestBytes(), taken.completionBytes(), arena);
      EventFd doorbell = EventFd.create();
      connection.doorbell = doorbell;
      environment.index.epoll.add(doorbell.descriptor(), Epoll.IN | Epoll.EDGE, id);
      Session session =
          new Session(
              id,
              Session.Client.of(accepted.name(), connection.peer.pid(), connection.peer.uid()),
              accepted.grant(),
              region,
              environment.memory.slabs.slabs(),
              this);
      if (!environment.index.agent.offerOpen(session)) {
        refuse(connection, Status.BUSY, "too many connections at once: try again");
        return;
      }
      if (environment.memory.takesMemory.getAsBoolean()) {
        connection.socket.takeDescriptors();
      }
      connection.session = session;
      connections.opened(connection, id);
      environment.index.bell.run();
      connection.socket.send(
          Messages.welcome(Status.OK, id, environment.memory.slabs, environment.version),
          memory,
          doorbell.descriptor(),
          environment.memory.daemonRegion);
      LOG.info(
          "session {} opened by process {} (user {}): {}",
          id,
          connection.peer.pid(),
          connection.peer.uid(),
          accepted.name());
    }
  }

  /**
   * Watches the client's process. A session ends with the process that connected, also if a child
   * still has the socket: the child does not know that it holds the session, and leases and
   * reservations would stay.
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
      connections.end(connection);
    }
  }

  private void refuse(Connection connection, Status status, String why) {
    environment.counters.countRefusal();
    LOG.warn("process {} (user {}) refused: {}", connection.peer.pid(), connection.peer.uid(), why);
    try {
      connection.socket.send(Messages.welcome(status, 0, environment.memory.slabs, why));
    } catch (IOException e) {
      LOG.debug("the refusal did not arrive: {}", e.getMessage());
    }
    connections.end(connection);
  }

  private void takeNotices() {
    for (Notice notice = notices.poll(); notice != null; notice = notices.poll()) {
      Connection connection = connections.ofSession(notice.session().id());
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
          connections.end(connection);
        }
        case Notice.Released released -> {
          // A brief session, such as a command's, has only the line of its beginning in the log.
          boolean isBrief = System.nanoTime() - connection.acceptedNs < BRIEF_NS;
          LOG.atLevel(isBrief ? Level.DEBUG : Level.INFO)
              .log("session {} closed", released.session().id());
          connections.closeSocket(connection);
          connections.forget(connection);
        }
      }
    }
  }

  @Override
  public void close() {
    running = false;
    bell.ring();
    if (!Joining.within(thread, CLOSE_MS)) {
      return;
    }
    connections.closeAll();
    acceptor.close();
    epoll.close();
    bell.close();
  }
}
