package io.kvtier.tiers.codec;

import java.lang.foreign.MemorySegment;

/**
 * Makes a block's bytes fewer, and the same again. All memory is native. Safe for several threads.
 *
 * <p>A codec finds most damage, not all: who decodes compares the block's checksum.
 */
public interface BlockCodec {
  /** As it was asked for, level included. */
  String name();

  /**
   * What a header says of the encoded bytes: 0 for bytes that are not encoded. One number for all
   * levels, never used again for another encoding.
   */
  byte id();

  /** How large a target {@link #encode} needs. */
  long boundBytes(int rawBytes);

  /**
   * Encodes a block.
   *
   * @param target at least {@link #boundBytes}; what it holds afterwards is of use only up to the
   *     length that is returned
   * @return the encoded length, less than the raw one; -1 when it would not get smaller
   */
  int encode(MemorySegment raw, MemorySegment target);

  /**
   * Decodes a block.
   *
   * @param encoded exactly what {@link #encode} made
   * @param raw as long as the block was; nothing outside of it is written, whatever was encoded.
   *     After a failure it holds anything
   * @throws CodecException when the bytes make no block of that length
   */
  void decode(MemorySegment encoded, MemorySegment raw) throws CodecException;
}
