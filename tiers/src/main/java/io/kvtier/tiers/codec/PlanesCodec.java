package io.kvtier.tiers.codec;

import io.kvtier.tiers.transfer.Buffers;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/**
 * For elements of two bytes, as bf16 and fp16: the lower bytes of all of them, then the upper
 * bytes, then the last byte of an odd length; and that as one zstd frame. The upper bytes have the
 * exponent, of which there are few different ones among neighbours.
 */
final class PlanesCodec implements BlockCodec {
  static final String NAME = "planes";
  static final byte ID = 2;

  private static final ValueLayout.OfLong LONG =
      ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
  private static final ValueLayout.OfByte BYTE = ValueLayout.JAVA_BYTE;

  /** Two words of elements make one word of each plane. */
  private static final int STEP_BYTES = 16;

  private final String name;
  private final ZstdCodec zstd;

  /** Hold the planes of a block between the two steps. */
  private final Buffers buffers = new Buffers();

  PlanesCodec(int level) {
    name = NAME + "/" + level;
    zstd = new ZstdCodec(level);
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public byte id() {
    return ID;
  }

  @Override
  public long boundBytes(int rawBytes) {
    return zstd.boundBytes(rawBytes);
  }

  @Override
  public int encode(MemorySegment raw, MemorySegment target) {
    MemorySegment buffer = buffers.take(raw.byteSize());
    try {
      MemorySegment planes = buffer.asSlice(0, raw.byteSize());
      split(raw, planes);
      return zstd.encode(planes, target);
    } finally {
      buffers.give(buffer);
    }
  }

  @Override
  public void decode(MemorySegment encoded, MemorySegment raw) throws CodecException {
    MemorySegment buffer = buffers.take(raw.byteSize());
    try {
      MemorySegment planes = buffer.asSlice(0, raw.byteSize());
      zstd.decode(encoded, planes);
      join(planes, raw);
    } finally {
      buffers.give(buffer);
    }
  }

  static void split(MemorySegment raw, MemorySegment planes) {
    long elements = raw.byteSize() / 2;
    long at = 0;
    for (; at + STEP_BYTES <= elements * 2; at += STEP_BYTES) {
      long first = raw.get(LONG, at);
      long second = raw.get(LONG, at + Long.BYTES);
      planes.set(LONG, at / 2, evenBytes(first) | evenBytes(second) << 32);
      planes.set(LONG, elements + at / 2, evenBytes(first >>> 8) | evenBytes(second >>> 8) << 32);
    }
    for (; at < elements * 2; at += 2) {
      planes.set(BYTE, at / 2, raw.get(BYTE, at));
      planes.set(BYTE, elements + at / 2, raw.get(BYTE, at + 1));
    }
    if (at < raw.byteSize()) {
      planes.set(BYTE, at, raw.get(BYTE, at));
    }
  }

  static void join(MemorySegment planes, MemorySegment raw) {
    long elements = raw.byteSize() / 2;
    long at = 0;
    for (; at + STEP_BYTES <= elements * 2; at += STEP_BYTES) {
      long lower = planes.get(LONG, at / 2);
      long upper = planes.get(LONG, elements + at / 2);
      raw.set(LONG, at, spread(lower) | spread(upper) << 8);
      raw.set(LONG, at + Long.BYTES, spread(lower >>> 32) | spread(upper >>> 32) << 8);
    }
    for (; at < elements * 2; at += 2) {
      raw.set(BYTE, at, planes.get(BYTE, at / 2));
      raw.set(BYTE, at + 1, planes.get(BYTE, elements + at / 2));
    }
    if (at < raw.byteSize()) {
      raw.set(BYTE, at, planes.get(BYTE, at));
    }
  }

  /** Bytes 0, 2, 4 and 6 of a word, side by side in its lower half. */
  private static long evenBytes(long word) {
    long pairs = word & 0x00ff_00ff_00ff_00ffL;
    long quads = (pairs | pairs >>> 8) & 0x0000_ffff_0000_ffffL;
    return (quads | quads >>> 16) & 0xffff_ffffL;
  }

  /** The four bytes of a word's lower half, as its bytes 0, 2, 4 and 6. */
  private static long spread(long word) {
    long quads = ((word & 0xffff_ffffL) | (word << 16)) & 0x0000_ffff_0000_ffffL;
    return (quads | quads << 8) & 0x00ff_00ff_00ff_00ffL;
  }
}
