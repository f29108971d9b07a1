package io.kvtier.daemon.member;

import io.kvtier.protocol.Printable;
import io.kvtier.tiers.node.FrameException;
import io.kvtier.tiers.node.NodeAddress;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import org.jgroups.Address;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.View;
import org.jspecify.annotations.Nullable;
import org.slf4j.LoggerFactory;

/**
 * Daemons that find each other by JGroups. JGroups agrees on who is in the group; its members tell
 * each other in {@link MemberFrame}s where they serve blocks. A part of the group that is cut off
 * goes on as a group of its own, and both become one when they meet again.
 *
 * <p>One thread connects, hears of changes and tells of them.
 */
public final class JGroupsMembership implements Membership {
  /** The most members that are told of. */
  public static final int MEMBERS_MAX = 1024;

  /** The most frames that wait to be read. */
  private static final int FRAMES_MAX = 4096;

  /** The most members that are asked who they are, in a second. */
  private static final int ASKED_MAX = 32;

  private static final long TICK_MS = 1000;
  private static final long RETRY_MS = 5000;
  private static final long CLOSE_MS = 3000;

  /**
   * The settings of a membership.
   *
   * @param self this node, as the others are told of it
   * @param listen where members connect
   * @param cluster members of another name are ignored
   * @param tls the certificates of this node and of those that it trusts; null for plaintext
   * @param onRefusal counts each connection and each frame that is refused; from any thread
   * @param defect told of what should never happen
   */
  public record Options(
      Member self,
      NodeAddress listen,
      String cluster,
      Discovery discovery,
      @Nullable Supplier<SSLContext> tls,
      Runnable onRefusal,
      Consumer<Throwable> defect) {}

  private final Options options;
  private final TroubleLog troubles =
      new TroubleLog(LoggerFactory.getLogger(JGroupsMembership.class), "membership");
  private final ScheduledThreadPoolExecutor thread;
  private final AtomicInteger waitingFrames = new AtomicInteger();
  private volatile boolean isClosed;
  private volatile @Nullable JChannel channel;

  /** How many members there are, this one included; 0 before the first answer. */
  private volatile int groupSize;

  // ---- of the thread

  private List<Address> group = List.of();

  /** The latest HERE of each sender, which may not be in the group yet. */
  private final Map<Address, Member> said = new HashMap<>();

  private final Map<NodeAddress, Member> told = new LinkedHashMap<>();
  private @Nullable Listener listener;

  /** A membership that does nothing yet. */
  public JGroupsMembership(Options options) {
    this.options = options;
    thread =
        new ScheduledThreadPoolExecutor(
            1, Thread.ofPlatform().daemon().name("kvtier-members").factory());
    thread.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
    thread.setRejectedExecutionHandler(new ThreadPoolExecutor.DiscardPolicy());
  }

  @Override
  public void start(Listener by) throws IOException {
    requirePort();
    MemberLog.install();
    listener = by;
    later(this::connect);
    var _ =
        thread.scheduleWithFixedDelay(
            guarded(this::askSilent), TICK_MS, TICK_MS, TimeUnit.MILLISECONDS);
  }

  /** JGroups binds the port in the background: what is wrong with it must be said at the start. */
  private void requirePort() throws IOException {
    NodeAddress listen = options.listen;
    try (ServerSocket probe = new ServerSocket()) {
      probe.setReuseAddress(true);
      probe.bind(new InetSocketAddress(InetAddress.getByName(listen.host()), listen.port()));
    } catch (IOException e) {
      throw new IOException(
          "the daemon can't listen on "
              + listen
              + " for other members: "
              + e.getMessage()
              + "; choose another nodes.member_listen",
          e);
    }
  }

  /** The channel, for tests; null before the thread has made one. */
  @Nullable JChannel channel() {
    return channel;
  }

  private void later(Runnable task) {
    thread.execute(guarded(task));
  }

  /** A task whose failure is told: the thread's own futures would keep it to themselves. */
  private Runnable guarded(Runnable task) {
    return () -> {
      try {
        task.run();
      } catch (RuntimeException | Error e) {
        options.defect.accept(e);
      }
    };
  }

  // ---- connecting

  private void connect() {
    JChannel made = null;
    try {
      made =
          Stack.channel(
              options.listen,
              options.discovery,
              InetAddress.getByName(options.self.address().host()),
              new MemberSockets(options.tls, this::refuse));
      made.setName(options.self.name());
      made.setDiscardOwnMessages(true);
      made.setReceiver(new Ears());
      channel = made;
      if (isClosed) {
        // Then close() may not have seen the channel.
        made.close();
        return;
      }
      made.connect(options.cluster);
    } catch (Exception e) {
      if (made != null) {
        made.close();
      }
      if (!isClosed) {
        troubles.tell("this node can't join", String.valueOf(e.getMessage()));
        var _ = thread.schedule(guarded(this::connect), RETRY_MS, TimeUnit.MILLISECONDS);
      }
    }
  }

  private void refuse(String why) {
    options.onRefusal.run();
    troubles.tell("a connection was refused", Printable.of(why));
  }

  /** Receives views and messages on the threads of JGroups. */
  private final class Ears implements Receiver {
    @Override
    public void viewAccepted(View view) {
      List<Address> now = List.copyOf(view.getMembers());
      later(() -> changed(now));
    }

    @Override
    public void receive(Message message) {
      Address from = message.getSrc();
      if (!(message instanceof BytesMessage)
          || message.getLength() > MemberFrame.BYTES_MAX
          || waitingFrames.get() >= FRAMES_MAX) {
        refused(from, "a message of " + message.getLength() + " bytes is no member's");
        return;
      }
      byte[] bytes =
          Arrays.copyOfRange(
              message.getArray(), message.getOffset(), message.getOffset() + message.getLength());
      waitingFrames.incrementAndGet();
      later(() -> {
        waitingFrames.decrementAndGet();
        heard(from, bytes);
      });
    }
  }

  private void refused(Address from, String why) {
    options.onRefusal.run();
    troubles.tell("a message was refused", Printable.of("of " + from + ": " + why));
  }

  // ---- on the thread

  private void changed(List<Address> now) {
    if (now.size() > MEMBERS_MAX) {
      troubles.tell(
          "the cluster is too large",
          now.size() + " members, of which " + MEMBERS_MAX + " are used");
    }
    Set<Address> before = Set.copyOf(group);
    group = now.size() > MEMBERS_MAX ? now.subList(0, MEMBERS_MAX) : now;
    groupSize = group.size();
    Set<Address> members = Set.copyOf(group);
    said.keySet().removeIf(address -> before.contains(address) && !members.contains(address));
    for (Address address : group) {
      if (!before.contains(address) && !isSelf(address)) {
        send(address, new MemberFrame.Here(options.self));
      }
    }
    tell();
  }

  private boolean isSelf(Address address) {
    JChannel now = channel;
    return now != null && address.equals(now.getAddress());
  }

  private void heard(Address from, byte[] bytes) {
    try {
      switch (MemberFrame.of(bytes)) {
        case MemberFrame.Who _ -> send(from, new MemberFrame.Here(options.self));
        case MemberFrame.Here(Member member) -> {
          if (member.address().equals(options.self.address())) {
            refused(from, "it serves at this node's own address " + member.address());
          } else if (group.contains(from) || said.size() < 2 * MEMBERS_MAX) {
            said.put(from, member);
            tell();
          }
        }
      }
    } catch (FrameException e) {
      refused(from, String.valueOf(e.getMessage()));
    }
  }

  private void send(Address to, MemberFrame frame) {
    JChannel now = channel;
    try {
      if (now != null && now.isConnected()) {
        now.send(new BytesMessage(to, frame.encoded()));
      }
    } catch (Exception e) {
      troubles.tell("a message was not sent", String.valueOf(e.getMessage()));
    }
  }

  /** Members whose frames were lost are asked again. */
  private void askSilent() {
    int asked = 0;
    for (Address address : group) {
      if (!isSelf(address) && !said.containsKey(address) && asked < ASKED_MAX) {
        send(address, new MemberFrame.Who());
        asked++;
      }
    }
  }

  /** Tells of the differences between what was told and what is so now. */
  private void tell() {
    Listener by = listener;
    if (by == null || isClosed) {
      return;
    }
    Map<NodeAddress, Member> now = new LinkedHashMap<>();
    for (Address address : group) {
      Member member = said.get(address);
      if (member != null) {
        // Of two with one address, the one that came last is the present one.
        now.put(member.address(), member);
      }
    }
    for (Member member : new ArrayList<>(told.values())) {
      if (!member.equals(now.get(member.address()))) {
        told.remove(member.address());
        by.left(member);
      }
    }
    for (Member member : now.values()) {
      if (told.putIfAbsent(member.address(), member) == null) {
        by.joined(member);
      }
    }
  }

  @Override
  public String state() {
    String kind =
        switch (options.discovery) {
          case Discovery.Seeds _ -> "list";
          case Discovery.Dns _ -> "dns";
          case Discovery.Multicast _ -> "multicast";
        };
    int members = groupSize;
    return switch (members) {
      case 0 -> kind + ", looking for other nodes";
      case 1 -> kind + ", no other node found";
      default -> kind + ", " + members + " members";
    };
  }

  @Override
  public void close() {
    isClosed = true;
    thread.shutdownNow();
    JChannel now = channel;
    if (now != null) {
      // The others are told, for as long as that takes JGroups: at most a second as a rule.
      Thread closing = Thread.ofPlatform().daemon().name("kvtier-members-end").start(now::close);
      try {
        closing.join(CLOSE_MS);
        var _ = thread.awaitTermination(CLOSE_MS, TimeUnit.MILLISECONDS);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
