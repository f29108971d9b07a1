package io.kvtier.tiers.codec;

import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdCompressCtx;
import com.github.luben.zstd.ZstdDecompressCtx;
import com.github.luben.zstd.ZstdException;
import io.kvtier.tiers.transfer.Pool;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;

/** One zstd frame. */
final class ZstdCodec implements BlockCodec {
  static final String NAME = "zstd";
  static final byte ID = 1;

  private final String name;
  private final Pool<ZstdCompressCtx> compressors;
  private final Pool<ZstdDecompressCtx> decompressors = new Pool<>(ZstdDecompressCtx::new);

  ZstdCodec(int level) {
    name = NAME + "/" + level;
    compressors = new Pool<>(() -> new ZstdCompressCtx().setLevel(level));
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
    return Zstd.compressBound(rawBytes);
  }

  @Override
  public int encode(MemorySegment raw, MemorySegment target) {
    ByteBuffer from = raw.asByteBuffer();
    ByteBuffer to = target.asByteBuffer();
    if (to.capacity() < boundBytes(from.capacity())) {
      throw new IllegalArgumentException(
          "a target of "
              + to.capacity()
              + " bytes: "
              + from.capacity()
              + " bytes to encode need "
              + boundBytes(from.capacity()));
    }
    ZstdCompressCtx compressor = compressors.take();
    try {
      int length =
          compressor.compressDirectByteBuffer(to, 0, to.capacity(), from, 0, from.capacity());
      return length < from.capacity() ? length : -1;
    } finally {
      compressors.give(compressor);
    }
  }

  @Override
  public void decode(MemorySegment encoded, MemorySegment raw) throws CodecException {
    ByteBuffer from = encoded.asByteBuffer();
    ByteBuffer to = raw.asByteBuffer();
    int length;
    ZstdDecompressCtx decompressor = decompressors.take();
    try {
      length =
          decompressor.decompressDirectByteBuffer(to, 0, to.capacity(), from, 0, from.capacity());
    } catch (ZstdException e) {
      throw new CodecException(
          from.capacity() + " bytes of zstd are damaged: " + e.getMessage(), e);
    } finally {
      decompressors.give(decompressor);
    }
    if (length != to.capacity()) {
      throw new CodecException(
          from.capacity()
              + " bytes of zstd make "
              + length
              + " bytes, not a block of "
              + to.capacity());
    }
  }
}
