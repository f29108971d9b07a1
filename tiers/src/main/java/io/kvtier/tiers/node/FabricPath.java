package io.kvtier.tiers.node;

import java.io.IOException;
import java.lang.foreign.MemorySegment;

/**
 * One side of the path of a link's blocks. Each block has a random tag, which a frame has told the
 * other side. Callbacks run in {@link #work} only. Confined to the transport's thread.
 */
public interface FabricPath extends AutoCloseable {
  /** Where the other side connects. */
  byte[] address();

  /**
   * Connects to the other side.
   *
   * @throws IOException if the address is of no use here
   */
  void connect(byte[] otherAddress) throws IOException;

  /**
   * Sends a block.
   *
   * @param sent runs when nothing reads its memory any more, unless the path closes before
   */
  void send(long tag, MemorySegment block, Runnable sent);

  /**
   * Receives the block of a tag. A path receives one block at a time.
   *
   * @param into as long as the block; {@link MemorySegment#NULL}: the block goes nowhere
   * @param received runs when the block has come, unless the path closes before
   */
  void receive(long tag, MemorySegment into, Runnable received);

  /**
   * The block that is being received goes nowhere from now on; its {@code received} still runs.
   *
   * @param released runs when nothing writes its memory any more, unless the path closes before
   */
  void discard(Runnable released);

  /** How many blocks are being sent. */
  int sending();

  /**
   * Moves bytes, and runs what has ended.
   *
   * @return whether there is more to do; if not, the bell rings when there is
   * @throws IOException if the path is broken
   */
  boolean work() throws IOException;

  /** Closes this side. Afterwards nothing reads or writes memory that the path was given. */
  @Override
  void close();
}
