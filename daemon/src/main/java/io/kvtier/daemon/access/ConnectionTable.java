package io.kvtier.daemon.access;

import io.netty.channel.Channel;
import io.netty.channel.socket.SocketChannel;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The connections of a listener, from the moment that they are accepted: before they have said
 * anything. There are so many at most, in all and from one address; beyond that a newcomer takes
 * the place of the one that has been of no use for longest, so that those who only connect can lock
 * nobody out. From any thread.
 */
public final class ConnectionTable {
  /** So many may be on their way out at once: who comes faster than they go is refused. */
  public static final int LEAVING_MAX = 1024;

  /** So many at most, of those that may leave, do not take what they are sent. */
  static final int STILL_MAX = 64;

  /** The same of those that are kept: more than there are calls that carry bytes. */
  static final int STILL_KEPT_MAX = 128;

  /** What comes from one address. */
  private static final class Peer {
    final String address;
    int connections;
    final Set<Channel> idle = new LinkedHashSet<>();

    Peer(String address) {
      this.address = address;
    }
  }

  private final int connectionsMax;
  private final int perAddressMax;
  private final Runnable onRefusal;
  private final Map<Channel, Peer> peers = new HashMap<>();
  private final Map<String, Peer> byAddress = new HashMap<>();

  /** Those of no use, in the order in which they came or were last of use, and when that was. */
  private final Map<Channel, Long> idle = new LinkedHashMap<>();

  /** Those that do not take what they are sent, in the order in which they ceased to. */
  private final Set<Channel> still = new LinkedHashSet<>();

  /** The same, of those that are kept. */
  private final Set<Channel> stillKept = new LinkedHashSet<>();

  private int leaving;

  /**
   * Without any.
   *
   * @param connectionsMax in all
   * @param perAddressMax of these, from one address; 0: all
   * @param onRefusal told of each that is turned away or put out for another; from any thread
   */
  public ConnectionTable(int connectionsMax, int perAddressMax, Runnable onRefusal) {
    this.connectionsMax = connectionsMax;
    this.onRefusal = onRefusal;
    this.perAddressMax = perAddressMax == 0 ? connectionsMax : perAddressMax;
  }

  /** Takes a new connection in, until it is closed; false when it is to be closed at once. */
  boolean admit(SocketChannel connection) {
    var remote = connection.remoteAddress();
    if (remote == null) {
      return false; // gone already
    }
    String address = remote.getAddress().getHostAddress();
    Channel leaves = null;
    synchronized (this) {
      Peer known = byAddress.get(address);
      Set<Channel> full = null;
      if (known != null && known.connections >= perAddressMax) {
        full = known.idle;
      } else if (peers.size() >= connectionsMax) {
        full = idle.keySet();
      }
      if (full != null) {
        Iterator<Channel> oldest = full.iterator();
        leaves = oldest.hasNext() ? oldest.next() : null;
        onRefusal.run();
        // One that no event loop has taken yet came just now: they come faster than they are taken.
        if (leaves == null || leaving >= LEAVING_MAX || !leaves.isRegistered()) {
          return false;
        }
        forget(leaves);
        leaving++;
      }
      Peer peer = byAddress.computeIfAbsent(address, Peer::new);
      peer.connections++;
      peer.idle.add(connection);
      peers.put(connection, peer);
      idle.put(connection, System.nanoTime());
    }
    connection.closeFuture().addListener(closed -> closed(connection));
    if (leaves != null) {
      cut(leaves);
    }
    return true;
  }

  /**
   * Ends a connection at once, and drops what it has not taken: an end in good order would wait for
   * its peer, and hold all of that meanwhile. From any thread.
   */
  public static void cut(Channel connection) {
    if (connection.eventLoop().inEventLoop()) {
      connection.unsafe().close(connection.voidPromise());
    } else {
      connection.eventLoop().execute(() -> connection.unsafe().close(connection.voidPromise()));
    }
  }

  /**
   * The connection does not take what it is sent. Of more than so many such, the one that has stood
   * still for longest is ended: a peer that reads slowly moves now and then.
   */
  void standsStill(Channel connection) {
    Channel leaves = null;
    synchronized (this) {
      if (!peers.containsKey(connection)) {
        return; // on its way out
      }
      boolean isKept = !idle.containsKey(connection);
      Set<Channel> all = isKept ? stillKept : still;
      all.add(connection);
      if (all.size() > (isKept ? STILL_KEPT_MAX : STILL_MAX)) {
        Iterator<Channel> oldest = all.iterator();
        leaves = oldest.next();
        oldest.remove();
        onRefusal.run();
      }
    }
    if (leaves != null) {
      cut(leaves);
    }
  }

  /** The connection has taken what it was sent. */
  synchronized void flows(Channel connection) {
    still.remove(connection);
    stillKept.remove(connection);
  }

  private synchronized void closed(Channel connection) {
    if (!forget(connection)) {
      leaving--;
    }
  }

  private boolean forget(Channel connection) {
    Peer peer = peers.remove(connection);
    if (peer == null) {
      return false;
    }
    idle.remove(connection);
    peer.idle.remove(connection);
    still.remove(connection);
    stillKept.remove(connection);
    peer.connections--;
    if (peer.connections == 0) {
      byAddress.remove(peer.address);
    }
    return true;
  }

  /** The connection is of use from now on: it leaves for no newcomer. */
  public synchronized void keep(Channel connection) {
    Peer peer = peers.get(connection);
    if (peer != null && idle.remove(connection) != null) {
      peer.idle.remove(connection);
      if (still.remove(connection)) {
        stillKept.add(connection);
      }
    }
  }

  /** The connection is of use just now: of those that may leave it is the last. */
  public synchronized void touch(Channel connection) {
    Peer peer = peers.get(connection);
    if (peer != null && idle.remove(connection) != null) {
      idle.put(connection, System.nanoTime());
      peer.idle.remove(connection);
      peer.idle.add(connection);
    }
  }

  /** Those that may leave and have been of no use for longer than that. */
  public synchronized List<Channel> idleFor(long ns) {
    long now = System.nanoTime();
    return idle.entrySet().stream()
        .takeWhile(each -> now - each.getValue() > ns)
        .map(Map.Entry::getKey)
        .toList();
  }
}
