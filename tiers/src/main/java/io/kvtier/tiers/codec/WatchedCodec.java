package io.kvtier.tiers.codec;

import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A plug-in's codec. If it throws, or answers with an impossible length, the block is stored as it
 * is, or can't be decoded. The log tells the first failure.
 */
final class WatchedCodec implements BlockCodec {
  private static final Logger LOG = LoggerFactory.getLogger(WatchedCodec.class);

  /** The most bytes that a codec may ask for on top of twice the bytes of a block. */
  private static final int BOUND_EXTRA_BYTES = 1 << 16;

  private final BlockCodec codec;
  private final String name;
  private final byte id;
  private final AtomicBoolean told = new AtomicBoolean();

  WatchedCodec(BlockCodec codec, String name, byte id) {
    this.codec = codec;
    this.name = name;
    this.id = id;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public byte id() {
    return id;
  }

  @Override
  public long boundBytes(int rawBytes) {
    try {
      long bound = codec.boundBytes(rawBytes);
      if (bound >= 0 && bound <= 2L * rawBytes + BOUND_EXTRA_BYTES) {
        return bound;
      }
      tell("asks for " + bound + " bytes to encode " + rawBytes, null);
    } catch (RuntimeException | LinkageError e) {
      tell("failed", e);
    }
    return 0;
  }

  /** Does not call the codec if {@link #boundBytes} is 0: the codec could not encode anything. */
  @Override
  public int encode(MemorySegment raw, MemorySegment target) {
    int rawBytes = (int) raw.byteSize();
    long bound = boundBytes(rawBytes);
    if (bound == 0 || bound > target.byteSize()) {
      return -1;
    }
    try {
      int length = codec.encode(raw.asReadOnly(), target.asSlice(0, bound));
      if (length < 0 || (length < rawBytes && length <= bound && length > 0)) {
        return length;
      }
      tell("made " + length + " bytes of " + rawBytes, null);
    } catch (RuntimeException | LinkageError e) {
      tell("failed", e);
    }
    return -1;
  }

  @Override
  public void decode(MemorySegment encoded, MemorySegment raw) throws CodecException {
    try {
      codec.decode(encoded.asReadOnly(), raw);
    } catch (RuntimeException | LinkageError e) {
      tell("failed", e);
      throw new CodecException("the plug-in's codec '" + name + "' failed: " + e, e);
    }
  }

  private void tell(String what, @Nullable Throwable cause) {
    if (told.compareAndSet(false, true)) {
      LOG.error(
          "the plug-in's codec '{}' {}; blocks are stored as they are, or dropped where they can't"
              + " be decoded: choose another codec, or ask the author of the plug-in",
          name,
          what,
          cause);
    }
  }
}
