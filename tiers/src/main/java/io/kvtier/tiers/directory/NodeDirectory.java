package io.kvtier.tiers.directory;

import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * This node's part of the directory: the owners of all partitions, and the holders of the blocks of
 * this node's partitions. A node is known by the number of its start, so that entries of an earlier
 * start say nothing of a later one. Entries are hints. Before {@link #open} the directory knows
 * nothing and takes no memory. Safe for several threads.
 */
public class NodeDirectory implements AutoCloseable {
  /** The most nodes that {@link #find} gives. */
  public static final int HOLDERS_MAX = HolderTable.HOLDERS_MAX;

  /** The most entries that are noted at a time: meanwhile, nobody finds a block. */
  private static final int NOTED_TOGETHER = 128;

  /** A node that announces its blocks here. */
  private static final class Sender {
    private final int number;

    /** The connection over which it announces. */
    private final Object from;

    private long next;

    Sender(int number, Object from) {
      this.number = number;
      this.from = from;
    }
  }

  private final long self;
  private final boolean isOwner;
  private final long tableBytes;

  /** Null before {@link #open}. */
  private @Nullable HolderTable table;

  private volatile boolean isOpen;
  private final Partitions partitions = new Partitions();
  private final Map<Long, Sender> senders = new HashMap<>();

  /** The node of each holder's number; 0: none, its entries are being removed. */
  private final long[] nodes = new long[HolderTable.HOLDER_MAX + 1];

  private final BitSet used = new BitSet();

  /** Numbers without a node since before the present sweep began, and since then. */
  private BitSet ending = new BitSet();

  private BitSet ended = new BitSet();
  private final int[] found = new int[HolderTable.HOLDERS_MAX];

  /** How many sweeps must end until nothing is left to remove. */
  private int sweepsLeft;

  private long gaps;

  /**
   * A directory of this node alone, not yet open.
   *
   * @param self the number of this start
   * @param isOwner whether this node can own partitions: others must be able to ask it
   * @param bytes the memory for entries
   */
  public NodeDirectory(long self, boolean isOwner, long bytes) {
    this.self = self;
    this.isOwner = isOwner;
    tableBytes = bytes;
    used.set(0);
  }

  /** Takes the memory for entries, unless that is done. */
  public synchronized void open() {
    var _ = opened();
  }

  /** Whether this node takes part in the directory. */
  public boolean isOpen() {
    return isOpen;
  }

  private HolderTable opened() {
    HolderTable present = table;
    if (present == null) {
      present = new HolderTable(tableBytes);
      table = present;
      if (isOwner) {
        var _ = partitions.join(self);
      }
      var _ = begin(self, this);
      isOpen = true;
    }
    return present;
  }

  // ---- nodes

  /**
   * A node has come.
   *
   * @param listener is told about the partitions that the node owns now
   * @return these partitions
   */
  public synchronized BitSet join(long node, Partitions.Listener listener) {
    return partitions.join(node, listener);
  }

  /** A node has gone; returns the partitions that others own now. */
  public synchronized BitSet leave(long node) {
    return partitions.leave(node);
  }

  /** The node that owns the partition of a block. */
  public synchronized long owner(long hash) {
    return partitions.owner(Partitions.of(hash));
  }

  /** The partitions that a node owns. */
  public synchronized BitSet partitionsOf(long node) {
    BitSet owned = new BitSet(Partitions.COUNT);
    for (int i = 0; i < Partitions.COUNT; i++) {
      owned.set(i, partitions.owner(i) == node);
    }
    return owned;
  }

  // ---- announcements

  /** Begins a new list of a node's blocks, and forgets the node's earlier announcements. */
  private @Nullable Sender begin(long node, Object from) {
    endSender(node);
    int number = used.nextClearBit(1);
    if (number > HolderTable.HOLDER_MAX) {
      return null; // the numbers of nodes that have gone are not free yet
    }
    used.set(number);
    nodes[number] = node;
    Sender sender = new Sender(number, from);
    senders.put(node, sender);
    return sender;
  }

  private void endSender(long node) {
    Sender sender = senders.remove(node);
    if (sender != null) {
      nodes[sender.number] = 0;
      ended.set(sender.number);
      sweepsLeft = 2;
    }
  }

  /**
   * A node has announced changes. The first announcement opens the directory: the node that
   * announces has seen that one is needed.
   *
   * @param from the connection over which the node announces
   * @param sequence counts the announcements of the node to this one; 0 begins a new list
   * @param entries as {@link ChangeFeed} has them, of kind CAME, LEFT or FOUND
   * @return false if announcements before this one are missing: the node must begin anew
   */
  public boolean note(long node, Object from, long sequence, long[] entries) {
    Sender sender = noteNext(node, from, sequence);
    if (sender == null) {
      return false;
    }
    for (int begin = 0; begin < entries.length; begin += NOTED_TOGETHER) {
      note(node, sender, entries, begin, Math.min(entries.length, begin + NOTED_TOGETHER));
    }
    return true;
  }

  /** Takes the number of an announcement; null if announcements before it are missing. */
  private synchronized @Nullable Sender noteNext(long node, Object from, long sequence) {
    var _ = opened();
    Sender sender = sequence == 0 ? begin(node, from) : senders.get(node);
    if (sender == null || !sender.from.equals(from) || sender.next != sequence) {
      gaps++;
      return null;
    }
    sender.next++;
    return sender;
  }

  private synchronized void note(long node, Sender sender, long[] entries, int begin, int end) {
    HolderTable noted = table;
    if (noted == null || senders.get(node) != sender) {
      return; // the directory is closed, or the node has begun anew on another connection
    }
    for (int i = begin; i < end; i++) {
      note(noted, sender, entries[i]);
    }
  }

  /** The blocks of this node are noted anew from here on. */
  public synchronized void restart() {
    var _ = begin(self, this);
  }

  /** A block of this node has come or left. */
  public synchronized void noteOwn(long entry) {
    HolderTable noted = opened();
    Sender own = senders.get(self);
    if (own != null) {
      note(noted, own, entry);
    }
  }

  private void note(HolderTable noted, Sender sender, long entry) {
    if (ChangeFeed.kindOf(entry) == ChangeFeed.LEFT) {
      var _ = noted.remove(entry, sender.number);
    } else {
      var _ = noted.put(entry, sender.number, this::isDead);
    }
  }

  /** Whether an entry is of a list that has ended. */
  private boolean isDead(long entry) {
    return nodes[HolderTable.holderOf(entry)] == 0;
  }

  /** A node's connection has ended: the blocks that it announced are not known any more. */
  public synchronized void end(long node, Object from) {
    Sender sender = senders.get(node);
    if (sender != null && sender.from.equals(from)) {
      endSender(node);
    }
  }

  // ---- questions

  /**
   * Finds the nodes that have a block of this node's partitions.
   *
   * @param holders gets the nodes; of length {@link #HOLDERS_MAX} or more
   * @return how many there are
   */
  public synchronized int find(long hash, long[] holders) {
    int count = table == null ? 0 : table.find(hash, found);
    int alive = 0;
    for (int i = 0; i < count; i++) {
      long node = nodes[found[i]];
      if (node != 0) {
        holders[alive++] = node;
      }
    }
    return alive;
  }

  // ---- upkeep

  /**
   * Goes on with removing entries of nodes that have gone.
   *
   * @param buckets the most parts of the table that are looked at
   */
  public synchronized void advance(int buckets) {
    if (table == null || sweepsLeft == 0) {
      return;
    }
    if (table.sweep(buckets, this::isDead)) {
      used.andNot(ending);
      ending = ended;
      ended = new BitSet();
      sweepsLeft--;
    }
  }

  // ---- figures

  /** How many entries there are. */
  public synchronized long size() {
    return table == null ? 0 : table.size();
  }

  /** How many parts the table has, for {@link #advance}. */
  public synchronized int buckets() {
    return table == null ? 0 : table.buckets();
  }

  /** The memory for entries, bytes. */
  public synchronized long bytes() {
    return table == null ? 0 : table.bytes();
  }

  /** How many entries were lost because the table was full. */
  public synchronized long displaced() {
    return table == null ? 0 : table.displaced();
  }

  /** How often a node had to announce all its blocks anew. */
  public synchronized long gaps() {
    return gaps;
  }

  /** How many nodes own partitions. */
  public synchronized int nodes() {
    return partitions.nodes();
  }

  /** Gives the memory for entries back; nobody may announce afterwards. */
  @Override
  public synchronized void close() {
    isOpen = false;
    if (table != null) {
      table.close();
      table = null;
    }
  }
}
