package io.kvtier.tiers.codec;

import java.lang.foreign.MemorySegment;

/** Leaves bytes as they are. */
final class NoCodec implements BlockCodec {
  static final String NAME = "none";
  static final byte ID = 0;

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public byte id() {
    return ID;
  }

  @Override
  public long boundBytes(int rawBytes) {
    return 0;
  }

  /** Nothing gets smaller here. */
  @Override
  public int encode(MemorySegment raw, MemorySegment target) {
    return -1;
  }

  @Override
  public void decode(MemorySegment encoded, MemorySegment raw) throws CodecException {
    if (encoded.byteSize() != raw.byteSize()) {
      throw new CodecException(
          encoded.byteSize() + " bytes that are not encoded are no block of " + raw.byteSize());
    }
    raw.copyFrom(encoded);
  }
}
