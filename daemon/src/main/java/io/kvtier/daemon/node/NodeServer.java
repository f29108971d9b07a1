package io.kvtier.daemon.node;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.session.NodeCall;
import io.kvtier.daemon.index.session.ServedBlock;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.protocol.Counted;
import io.kvtier.tiers.directory.NodeDirectory;
import io.kvtier.tiers.files.ByteSize;
import io.kvtier.tiers.node.BufferPool;
import io.kvtier.tiers.node.NodeLink;
import io.kvtier.tiers.node.NodeTransport;
import io.kvtier.tiers.transfer.TroubleLog;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Serves the blocks in this node's memory to other nodes, over the links of one transport. A link
 * that says nothing, or takes nothing, does not stay; when there are too many, the oldest that has
 * not proved who it is makes place. Confined to the transport's thread, except {@link #later}.
 */
public final class NodeServer {
  private static final long GREETING_NS = TimeUnit.SECONDS.toNanos(10);
  private static final long STILL_NS = TimeUnit.SECONDS.toNanos(10);

  /** The shortest time between two looks for links that must not stay. */
  private static final long LOOK_EVERY_NS = TimeUnit.MILLISECONDS.toNanos(100);

  /** The longest time for tasks in one round. Then links have their turns. */
  private static final long TASKS_NS = TimeUnit.MILLISECONDS.toNanos(1);

  /**
   * What all servers of a daemon share.
   *
   * @param grants finds out what a node may do, by its token; null for a node that may do nothing
   * @param onRefusal counts each link that is refused or cut off
   * @param directory this node's part of the directory; null if there must be none
   * @param linksMax the most links of all servers together
   * @param links how many there are
   * @param served told of blocks that traced requests of other nodes wanted; from any thread
   */
  public record Options(
      String name,
      long incarnation,
      Function<String, @Nullable Grant> grants,
      Runnable onRefusal,
      @Nullable NodeDirectory directory,
      int linksMax,
      AtomicInteger links,
      Consumer<ServedBlock> served) {}

  private final Options options;
  private final NodeTransport transport;
  private final NodeIndex index;
  private final TroubleLog troubles;
  private volatile List<ServedLink> greeted = List.of();
  private final Set<ServedLink> served = new LinkedHashSet<>();
  private final BufferPool keyMemory = new BufferPool();
  private final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();
  private final SureCalls sure;
  private long nextLookNs;

  /** A server without links. */
  public NodeServer(
      Options options, NodeTransport transport, NodeIndex index, TroubleLog troubles) {
    this.options = options;
    this.transport = transport;
    this.index = index;
    sure = new SureCalls(index);
    this.troubles = troubles;
    nextLookNs = transport.nowNs();
  }

  // ---- links

  /**
   * Takes a new link in.
   *
   * @param make makes the link with its listener
   * @return false if there are too many links, all of nodes: the connection must be closed
   */
  public boolean admit(Function<NodeLink.Listener, NodeLink> make) {
    // Counted first: other threads take links in, too.
    if (options.links.incrementAndGet() > options.linksMax && !makePlace()) {
      options.links.decrementAndGet();
      options.onRefusal.run();
      troubles.tell("a connection was refused", "there are too many (nodes.connections)");
      return false;
    }
    ServedLink link = new ServedLink(this, transport.nowNs());
    served.add(link);
    link.adoptedBy(make.apply(link));
    return true;
  }

  private boolean makePlace() {
    for (ServedLink one : served) {
      NodeLink link = one.link();
      if (!one.isGreeted() && link != null) {
        link.close("others came after it, and it has not said who it is");
        return true;
      }
    }
    return false;
  }

  void closed(ServedLink link, boolean wasGreeted, String why) {
    if (served.remove(link)) {
      options.links.decrementAndGet();
      readersChanged();
      NodeLink made = link.link();
      String address = made == null ? "" : made.address();
      if (wasGreeted) {
        troubles.tell("node " + link.name() + " at " + address + " reads no more", why);
      } else {
        options.onRefusal.run();
        troubles.tell("a connection was closed that is of no node", address + ": " + why);
      }
    }
  }

  void refused(NodeLink link, String why) {
    troubles.tell("a node was refused", link.address() + ": " + why);
  }

  // ---- rounds

  /** One round; returns how much was done. */
  public int doWork() {
    long nowNs = transport.nowNs();
    int work = runTasks(nowNs + TASKS_NS);
    sure.repeat();
    if (nowNs - nextLookNs >= 0) {
      nextLookNs = nowNs + LOOK_EVERY_NS;
      closeLate(nowNs);
    }
    return work;
  }

  private int runTasks(long endNs) {
    int count = 0;
    for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
      task.run();
      count++;
      if (transport.nowNs() - endNs >= 0) {
        break;
      }
    }
    return count;
  }

  private void closeLate(long nowNs) {
    for (ServedLink one : List.copyOf(served)) {
      NodeLink link = one.link();
      String why = link == null ? null : whyLate(one, link, nowNs);
      if (link != null && why != null) {
        link.close(why);
      }
    }
  }

  /** Why the link of a node must be closed now; null: it may stay. */
  private static @Nullable String whyLate(ServedLink one, NodeLink link, long nowNs) {
    if (!one.isGreeted()) {
      return nowNs - one.cameNs() >= GREETING_NS ? "it has not said who it is" : null;
    }
    if (one.intake().isLate(nowNs)) {
      return "a block that it pushes has not come in time";
    }
    if (one.leases().isLate(nowNs) || one.pieces().isLate(nowNs)) {
      return "it has not released a block in time";
    }
    boolean isStill = link.queued() > 0 && nowNs - link.movedNs() >= STILL_NS;
    return isStill ? "it takes no bytes" : null;
  }

  // ---- for links

  /** Has something run on the server's thread; from any thread. */
  void later(Runnable task) {
    tasks.add(task);
    transport.wake();
  }

  /** Tells the index something that must reach it. */
  void surely(Session session, NodeCall call) {
    sure.call(session, call);
  }

  /** A block that a traced request of another node wanted was sent, or was refused. */
  void served(ServedBlock block) {
    options.served.accept(block);
  }

  /** Ends a session of the index. */
  void end(Session session) {
    sure.close(session);
  }

  /** The bytes of a block that a node pushed did not match the checksum of their writer. */
  void damaged(ServedLink from, int expected, int found) {
    troubles.tell(
        "a pushed block was damaged",
        "node "
            + from.name()
            + " says that its checksum is "
            + Integer.toHexString(expected)
            + ", the bytes that came have "
            + Integer.toHexString(found));
  }

  long nowNs() {
    return transport.nowNs();
  }

  @Nullable Grant grantOf(String token) {
    return options.grants.apply(token);
  }

  @Nullable NodeDirectory directory() {
    return options.directory;
  }

  /** Memory for the keys of questions. */
  BufferPool keyMemory() {
    return keyMemory;
  }

  NodeIndex index() {
    return index;
  }

  String name() {
    return options.name;
  }

  long incarnation() {
    return options.incarnation;
  }

  /** A node has said who it is, or has gone. */
  void readersChanged() {
    greeted = served.stream().filter(ServedLink::isGreeted).toList();
  }

  /** The nodes that read here, each with its address and what it has pushed; from any thread. */
  public List<String> readers() {
    List<String> now = new ArrayList<>();
    for (ServedLink one : greeted) {
      NodeLink link = one.link();
      Intake intake = one.intake();
      if (link != null) {
        now.add(
            one.name()
                + " at "
                + link.address()
                + (intake.blocksTaken() == 0
                    ? ""
                    : ", pushed "
                        + Counted.of(intake.blocksTaken(), "block")
                        + " of "
                        + ByteSize.words(intake.bytesTaken())));
      }
    }
    return now;
  }
}
