package io.kvtier.tiers.node;

import io.kvtier.protocol.Status;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.security.SecureRandom;
import org.jspecify.annotations.Nullable;

/**
 * The path of a link's blocks beside the link, if both sides have a fabric. Both addresses go
 * through the link, each after its side has found out who the other one is. So only nodes that
 * trust each other connect. Confined to the link's thread.
 */
final class LinkFabric {
  private static final SecureRandom TAGS = new SecureRandom();

  private final @Nullable Fabric fabric;
  private final boolean isAcceptor;
  private final Runnable bell;
  private @Nullable FabricPath path;
  private boolean isTrusted;
  private boolean isConnected;
  private boolean isReceiving;

  /** Whether the block that is being received goes nowhere, and since when, ns. */
  private boolean isDiscarding;

  private long discardedNs;

  /**
   * No path yet.
   *
   * @param isAcceptor whether the other side has connected
   * @param bell runs, on any thread, when {@link #work} has something to do
   */
  LinkFabric(@Nullable Fabric fabric, boolean isAcceptor, Runnable bell) {
    this.fabric = fabric;
    this.isAcceptor = isAcceptor;
    this.bell = bell;
  }

  // ---- the agreement

  /**
   * The other side has shown who it is.
   *
   * @return the frame that it is sent; null: none
   */
  @Nullable Frame trust() throws IOException {
    isTrusted = true;
    return fabric == null || !isAcceptor ? null : opened(fabric);
  }

  private Frame opened(Fabric with) throws IOException {
    FabricPath made = with.open(bell);
    path = made;
    return Frame.of(FrameType.FABRIC, Status.OK, 0, 0, 0).with(ByteBuffer.wrap(made.address()));
  }

  /**
   * Takes the other side's address.
   *
   * @return the answer; null: none
   */
  @Nullable Frame take(Frame frame) throws IOException {
    if (!isTrusted) {
      throw new FrameException("the other side sends an address of a fabric before it may");
    }
    if (isConnected || (isAcceptor && path == null)) {
      throw new FrameException("the other side sends an address of a fabric that nobody asked for");
    }
    if (fabric == null) {
      return null; // blocks stay on the link
    }
    Frame answer = isAcceptor ? null : opened(fabric);
    byte[] address = new byte[frame.body().remaining()];
    frame.body().get(address);
    FabricPath made = path;
    if (made != null) {
      made.connect(address);
      isConnected = true;
    }
    return answer;
  }

  // ---- blocks

  /** A tag for a block that leaves; 0: it leaves on the link. */
  long tag() {
    return isConnected ? TAGS.nextLong() | 1 : 0;
  }

  /** Sends the block of a tag, of which the other side has been told. */
  void send(long tag, MemorySegment block, Runnable sent) {
    FabricPath made = path;
    if (made != null) {
      made.send(tag, block, sent);
    }
  }

  /**
   * Begins to receive a block.
   *
   * @param into null: the block goes nowhere
   */
  void receive(long tag, @Nullable MemorySegment into, Runnable received, long nowNs)
      throws FrameException {
    FabricPath made = path;
    if (made == null) {
      throw new FrameException("a block comes by a fabric that nobody agreed on");
    }
    isReceiving = true;
    isDiscarding = into == null;
    discardedNs = nowNs;
    made.receive(
        tag,
        into == null ? MemorySegment.NULL : into,
        () -> {
          isReceiving = false;
          received.run();
        });
  }

  /** As {@link NodeLink#isDiscardingFor}. */
  boolean isDiscardingFor(long ns, long nowNs) {
    return isReceiving && isDiscarding && nowNs - discardedNs >= ns;
  }

  /** Whether the block of the last frame is still coming by the fabric. */
  boolean isReceiving() {
    return isReceiving;
  }

  /** The block that is being received goes nowhere from now on. */
  void discard(Runnable released, long nowNs) {
    FabricPath made = path;
    if (made != null) {
      isDiscarding = true;
      discardedNs = nowNs;
      made.discard(released);
    }
  }

  /** How many blocks are being sent. */
  int sending() {
    FabricPath made = path;
    return made == null ? 0 : made.sending();
  }

  /** Whether blocks leave by the fabric. */
  boolean isConnected() {
    return isConnected;
  }

  /** Moves bytes; returns whether there is more to do. */
  boolean work() throws IOException {
    FabricPath made = path;
    return made != null && made.work();
  }

  void close() {
    FabricPath made = path;
    path = null;
    isConnected = false;
    isReceiving = false;
    if (made != null) {
      made.close();
    }
  }
}
