package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.GranuleCodec;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/**
 * Encodes and decodes blocks, with the CRC32C of the encoded bytes made on the way: natively where
 * that can be, in Java everywhere else.
 */
@SuppressWarnings("restricted") // the functions are our own, their lengths those of the segments
public final class BlockCoder {
  private static final FunctionDescriptor SIGNATURE =
      FunctionDescriptor.of(JAVA_LONG, JAVA_INT, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, JAVA_LONG);

  /** The coder of this machine. */
  public static final BlockCoder OF_THIS_MACHINE = new BlockCoder(NativeLibrary.lookup());

  /** A block does not fit its encoded form, or is damaged. */
  public static final long NONE = -1;

  private final @Nullable MethodHandle encode;
  private final @Nullable MethodHandle decode;

  /** A coder; without a library it works in Java. */
  BlockCoder(@Nullable SymbolLookup library) {
    encode = library == null ? null : handle(library, "kvtier_encode");
    decode = library == null ? null : handle(library, "kvtier_decode");
  }

  // Critical, so that a byte array may be an end: a block of some MiB keeps the collector waiting
  // for less than a millisecond.
  private static MethodHandle handle(SymbolLookup library, String function) {
    return Linker.nativeLinker()
        .downcallHandle(library.findOrThrow(function), SIGNATURE, Linker.Option.critical(true));
  }

  /**
   * Encodes a block.
   *
   * @param raw at least {@link BlockEncoding#rawBytes} of memory
   * @param encoded at least {@link BlockEncoding#encodedBytes} of memory
   * @return the CRC32C of the encoded bytes, not negative; or {@link #NONE} when the block does not
   *     fit and must be stored raw
   */
  public long encode(BlockEncoding encoding, MemorySegment raw, MemorySegment encoded) {
    MemorySegment from = raw.asSlice(0, encoding.rawBytes());
    MemorySegment to = encoded.asSlice(0, encoding.encodedBytes());
    if (encode != null) {
      return call(encode, encoding, from, to);
    }
    return new GranuleCodec(encoding).encode(from, to) ? checksum(to) : NONE;
  }

  /**
   * Decodes a block, and checks its granules.
   *
   * @param encoded at least {@link BlockEncoding#encodedBytes} of memory, which others may write to
   * @param raw at least {@link BlockEncoding#rawBytes} of memory; without meaning if the block is
   *     damaged
   * @return the CRC32C of the encoded bytes, not negative; or {@link #NONE} when the block is
   *     damaged
   */
  public long decode(BlockEncoding encoding, MemorySegment encoded, MemorySegment raw) {
    MemorySegment from = encoded.asSlice(0, encoding.encodedBytes());
    MemorySegment to = raw.asSlice(0, encoding.rawBytes());
    if (decode != null) {
      return call(decode, encoding, from, to);
    }
    // The checksum is made of the bytes that are decoded.
    byte[] copy = new byte[(int) from.byteSize()];
    MemorySegment.copy(from, 0, MemorySegment.ofArray(copy), 0, copy.length);
    from = MemorySegment.ofArray(copy);
    return new GranuleCodec(encoding).decode(from, to) ? checksum(from) : NONE;
  }

  private static long call(
      MethodHandle function, BlockEncoding encoding, MemorySegment from, MemorySegment to) {
    int[] crc = new int[1];
    try {
      long done =
          (long)
              function.invokeExact(
                  encoding.kind().number(),
                  MemorySegment.ofArray(crc),
                  to,
                  from,
                  (long) encoding.granules(),
                  (long) encoding.granuleElements());
      return done == encoding.granules() ? Integer.toUnsignedLong(crc[0]) : NONE;
    } catch (RuntimeException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  private static long checksum(MemorySegment bytes) {
    CRC32C crc = new CRC32C();
    crc.update(bytes.asByteBuffer());
    return crc.getValue();
  }
}
