package io.kvtier.protocol.linux;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/**
 * Access to the shared words of a mapping, with their memory ordering said by name. Little-endian.
 */
public final class Words {
  private static final ValueLayout.OfLong LONG =
      ValueLayout.JAVA_LONG.withOrder(ByteOrder.LITTLE_ENDIAN);
  private static final ValueLayout.OfInt INT =
      ValueLayout.JAVA_INT.withOrder(ByteOrder.LITTLE_ENDIAN);
  private static final ValueLayout.OfShort SHORT =
      ValueLayout.JAVA_SHORT.withOrder(ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle LONG_WORD = LONG.varHandle();
  private static final VarHandle INT_WORD = INT.varHandle();

  private Words() {}

  public static long getLong(MemorySegment segment, long offset) {
    return segment.get(LONG, offset);
  }

  public static void putLong(MemorySegment segment, long offset, long value) {
    segment.set(LONG, offset, value);
  }

  public static int getInt(MemorySegment segment, long offset) {
    return segment.get(INT, offset);
  }

  public static void putInt(MemorySegment segment, long offset, int value) {
    segment.set(INT, offset, value);
  }

  public static int getShort(MemorySegment segment, long offset) {
    return Short.toUnsignedInt(segment.get(SHORT, offset));
  }

  public static void putShort(MemorySegment segment, long offset, int value) {
    segment.set(SHORT, offset, (short) value);
  }

  public static int getByte(MemorySegment segment, long offset) {
    return Byte.toUnsignedInt(segment.get(ValueLayout.JAVA_BYTE, offset));
  }

  public static void putByte(MemorySegment segment, long offset, int value) {
    segment.set(ValueLayout.JAVA_BYTE, offset, (byte) value);
  }

  public static long getLongAcquire(MemorySegment segment, long offset) {
    return (long) LONG_WORD.getAcquire(segment, offset);
  }

  public static void putLongRelease(MemorySegment segment, long offset, long value) {
    LONG_WORD.setRelease(segment, offset, value);
  }

  public static int getIntAcquire(MemorySegment segment, long offset) {
    return (int) INT_WORD.getAcquire(segment, offset);
  }

  public static void putIntRelease(MemorySegment segment, long offset, int value) {
    INT_WORD.setRelease(segment, offset, value);
  }

  /**
   * Sequentially consistent among such accesses. A later load with a weaker ordering may still be
   * moved before this store: say {@link #fullFence} where that matters.
   */
  public static void putIntVolatile(MemorySegment segment, long offset, int value) {
    INT_WORD.setVolatile(segment, offset, value);
  }

  public static int getIntVolatile(MemorySegment segment, long offset) {
    return (int) INT_WORD.getVolatile(segment, offset);
  }

  /**
   * Sets the word where it still has the expected value; sequentially consistent.
   *
   * @return whether it had
   */
  public static boolean compareAndSetInt(
      MemorySegment segment, long offset, int expected, int value) {
    return INT_WORD.compareAndSet(segment, offset, expected, value);
  }

  /** Earlier loads happen before later loads and stores: what was read is read. */
  public static void acquireFence() {
    VarHandle.acquireFence();
  }

  /** A full fence: earlier stores are visible before later loads happen. */
  public static void fullFence() {
    VarHandle.fullFence();
  }
}
