package io.kvtier.tiers.node;

import io.kvtier.tiers.transfer.Checksums;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.atomic.LongAdder;

/**
 * Another node, as this one sees it: whether it can be reached, and what came from it. Written by
 * the readers, read by any thread.
 */
public final class NodePeer {
  /** Whether a node can be asked; the best first. */
  public enum State {
    /** Frames go both ways. */
    CONNECTED,
    /** The address is this node's own. */
    SELF,
    /** The node does not accept this one. */
    REFUSED,
    /** The last connection failed or broke. */
    UNREACHABLE,
    /** The first connection is being made. */
    CONNECTING,
    /** As many nodes are asked as can be: this one waits until another leaves. */
    SPARE
  }

  /** The number of a node that is not asked. */
  static final int SPARE = -1;

  private final int number;
  private final NodeAddress address;
  private final AtomicReferenceArray<State> states;
  private final PeerSpeed speed = new PeerSpeed();
  private final LongAdder blocks = new LongAdder();
  private final LongAdder bytes = new LongAdder();
  private final LongAdder pushedBlocks = new LongAdder();
  private final LongAdder pushedBytes = new LongAdder();
  private final LongAdder errors = new LongAdder();
  private final LongAdder stale = new LongAdder();
  private final LongAdder hedges = new LongAdder();
  private final LongAdder hedgesWon = new LongAdder();
  private final int numberOfAddress;
  private volatile String name = "";
  private volatile int numberOfName;
  private volatile String why = "";
  private volatile long incarnation;
  private volatile long roundTripNs;
  private volatile boolean usesFabric;

  NodePeer(int number, NodeAddress address, int readers) {
    this.number = number;
    this.address = address;
    numberOfAddress = numberOf(address.toString());
    states = new AtomicReferenceArray<>(readers);
    for (int i = 0; i < readers; i++) {
      states.set(i, State.CONNECTING);
    }
  }

  /** The number that stands for this node; {@link #SPARE} if it is not asked. */
  int number() {
    return number;
  }

  /**
   * Whether this node has a number: the CRC32C of its name or of its address.
   *
   * @param number of the node that a request names
   */
  boolean isCalled(int number) {
    return numberOfAddress == number || numberOfName == number;
  }

  /** As {@code io.kvtier.protocol.Records} computes it, which tiers don't use. */
  private static int numberOf(String text) {
    return Checksums.of(MemorySegment.ofArray(text.getBytes(StandardCharsets.UTF_8)));
  }

  public NodeAddress address() {
    return address;
  }

  /** The name that the node gave itself; empty before the first connection. */
  public String name() {
    return name;
  }

  /** The number of the node's present start; 0 before the first connection. */
  public long incarnation() {
    return incarnation;
  }

  /** The state of the best connection. */
  public State state() {
    if (number == SPARE) {
      return State.SPARE;
    }
    State best = State.CONNECTING;
    for (int i = 0; i < states.length(); i++) {
      State one = states.get(i);
      best = one.compareTo(best) < 0 ? one : best;
    }
    return best;
  }

  /** Why the last connection failed or broke; empty if none has. */
  public String why() {
    return why;
  }

  /** The last round trip of a PING, ns; 0 before the first. */
  public long roundTripNs() {
    return roundTripNs;
  }

  /** Whether the last link that was looked at has a {@link Fabric} for its blocks. */
  public boolean usesFabric() {
    return usesFabric;
  }

  void setUsesFabric(boolean isUsed) {
    if (usesFabric != isUsed) {
      usesFabric = isUsed;
    }
  }

  /** How fast blocks come from the node. */
  public PeerSpeed speed() {
    return speed;
  }

  /** The blocks that came from the node. */
  public long blocks() {
    return blocks.sum();
  }

  /** The bytes of these blocks. */
  public long bytes() {
    return bytes.sum();
  }

  /** The blocks that were pushed to the node. */
  public long pushedBlocks() {
    return pushedBlocks.sum();
  }

  /** The bytes of these blocks. */
  public long pushedBytes() {
    return pushedBytes.sum();
  }

  /** The fetches that failed, without those of blocks that the node no longer had. */
  public long errors() {
    return errors.sum();
  }

  /** The frames of earlier starts of either side, which were ignored. */
  public long stale() {
    return stale.sum();
  }

  /** How often the node was asked for a block because another was late. */
  public long hedges() {
    return hedges.sum();
  }

  /** How often the node then delivered first. */
  public long hedgesWon() {
    return hedgesWon.sum();
  }

  // ---- for readers

  void become(int reader, State state) {
    states.set(reader, state);
  }

  void failed(String reason) {
    why = reason;
  }

  /** The node has answered; returns whether it has started since it did so last. */
  boolean welcomed(String called, long started) {
    boolean isNew = incarnation != 0 && incarnation != started;
    name = called;
    numberOfName = numberOf(called);
    incarnation = started;
    why = "";
    return isNew;
  }

  void tookRoundTrip(long ns) {
    roundTripNs = ns;
  }

  void countBlock(int length) {
    blocks.increment();
    bytes.add(length);
  }

  void countPushed(int length) {
    pushedBlocks.increment();
    pushedBytes.add(length);
  }

  void countError() {
    errors.increment();
  }

  void countHedge() {
    hedges.increment();
  }

  void countHedgeWon() {
    hedgesWon.increment();
  }

  void countStale() {
    stale.increment();
  }
}
