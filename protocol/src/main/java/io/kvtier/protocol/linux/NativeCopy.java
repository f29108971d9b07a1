package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import org.jspecify.annotations.Nullable;

/**
 * Copies past the caches, with the CRC32C made on the way, one pass over the bytes: what no copy of
 * the JDK does.
 */
@SuppressWarnings("restricted") // the functions are our own, their lengths those of the segments
public final class NativeCopy {
  private static final @Nullable NativeCopy INSTANCE = load();

  private final MethodHandle copy;
  private final MethodHandle copyCrc32c;

  private NativeCopy(MethodHandle copy, MethodHandle copyCrc32c) {
    this.copy = copy;
    this.copyCrc32c = copyCrc32c;
  }

  /** The native copy, or null on a machine that it was not built for. */
  public static @Nullable NativeCopy get() {
    return INSTANCE;
  }

  /**
   * Copies all of the source to the start of the target.
   *
   * @param target at least as long as the source
   */
  public void copy(MemorySegment source, MemorySegment target) {
    try {
      copy.invokeExact(target.asSlice(0, source.byteSize()), source, source.byteSize());
    } catch (RuntimeException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /**
   * As {@link #copy}, and makes the checksum of what is stored, whatever happens to the source
   * meanwhile.
   *
   * @param crc the CRC32C of the data before, 0 when there is none
   * @param target at least as long as the source
   * @return the CRC32C of both together
   */
  public int copyCrc32c(int crc, MemorySegment source, MemorySegment target) {
    try {
      return (int)
          copyCrc32c.invokeExact(
              crc, target.asSlice(0, source.byteSize()), source, source.byteSize());
    } catch (RuntimeException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  private static @Nullable NativeCopy load() {
    SymbolLookup library = NativeLibrary.lookup();
    return library == null ? null : link(library);
  }

  private static NativeCopy link(SymbolLookup library) {
    Linker linker = Linker.nativeLinker();
    // Critical, so that a byte array may be an end: a copy of some MiB keeps the collector waiting
    // for less than a millisecond.
    return new NativeCopy(
        linker.downcallHandle(
            library.findOrThrow("kvtier_copy"),
            FunctionDescriptor.ofVoid(ADDRESS, ADDRESS, JAVA_LONG),
            Linker.Option.critical(true)),
        linker.downcallHandle(
            library.findOrThrow("kvtier_copy_crc32c"),
            FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG),
            Linker.Option.critical(true)));
  }
}
