package io.kvtier.tiers.node;

import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * A connection to another daemon. Frames arrive in the order in which they were sent, until the
 * link closes. Used only by the thread that calls {@link NodeTransport#poll}.
 *
 * <p>Two rules keep late bytes out of slots that were given to other blocks:
 *
 * <ul>
 *   <li>Memory that bytes are sent from may change only after its {@code sent} has run.
 *   <li>Memory that bytes arrive in may be reused only after {@link Listener#onPayload}, {@link
 *       Listener#onClosed}, or the {@code released} of {@link #discard}.
 * </ul>
 */
public interface NodeLink {
  /** Hears of a link, always from {@link NodeTransport#poll}. */
  interface Listener {
    /** The link is made, and its security agreed: frames can be sent. */
    void onOpen(NodeLink link);

    /**
     * A frame has come.
     *
     * @return where the bytes of its block go, exactly as long as the block; null: nowhere
     * @throws FrameException if the frame is against the rules: the link closes
     */
    @Nullable MemorySegment onFrame(NodeLink link, Frame frame) throws FrameException;

    /**
     * All bytes of the block of the last frame have come.
     *
     * @param checksum the CRC-32C of these bytes; 0 if they went nowhere
     * @param isKept false if the bytes went nowhere, at least in part
     */
    void onPayload(NodeLink link, int checksum, boolean isKept);

    /**
     * The link is closed. No memory that was given to it is read or written any more; no {@code
     * sent} and no {@code released} of the link runs from now on.
     */
    void onClosed(NodeLink link, String why);
  }

  /**
   * The other side has shown who it is, and may have the bytes of blocks in other ways than by the
   * link. Called once, after {@link Listener#onOpen}. It may close the link.
   */
  default void trust() {}

  /** The address of the other side, for people. */
  String address();

  /**
   * Queues a frame. The other side can have the block, and answer, before {@code sent} runs.
   *
   * @param payload the bytes of its block; of length 0 for none
   * @param sent runs when nothing reads these bytes any more, unless the link closes before
   */
  void send(Frame frame, MemorySegment payload, Runnable sent);

  /** Queues a frame without a block. */
  default void send(Frame frame) {
    send(frame, MemorySegment.NULL, () -> {});
  }

  /**
   * The block that is arriving goes nowhere from now on.
   *
   * @param released runs when nothing writes its memory any more, perhaps at once, unless the link
   *     closes before
   */
  void discard(Runnable released);

  /**
   * Whether a block that goes nowhere has been coming for this time or longer. Its slot may still
   * be written, and no frame behind it is read.
   */
  default boolean isDiscardingFor(long ns) {
    return false;
  }

  /** Closes the link. {@link Listener#onClosed} follows, perhaps at once. */
  void close(String why);

  /** Whether blocks leave by a {@link Fabric} beside the link. */
  default boolean usesFabric() {
    return false;
  }

  /** How many frames, and blocks of a fabric, wait to be sent. */
  int queued();

  /** When bytes last came, or could last be sent, on the transport's clock in ns. */
  long movedNs();

  /** When bytes last came, on the transport's clock in ns. */
  long heardNs();

  long bytesReceived();

  long bytesSent();
}
