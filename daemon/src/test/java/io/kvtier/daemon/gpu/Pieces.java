package io.kvtier.daemon.gpu;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.kvtier.tiers.gpu.GpuException;
import io.kvtier.tiers.gpu.PassedMemory;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/** Maps files of memory one behind the other, as a GPU's driver maps its pieces. */
@SuppressWarnings("restricted")
final class Pieces {
  private static final int INVALID_VALUE = 1;
  private static final int READ_WRITE = 3;
  private static final int SHARED_FIXED = 0x11;
  private static final int PRIVATE_ANONYMOUS = 0x22;
  private static final int NOTHING = 0;

  private static final Linker LINKER = Linker.nativeLinker();
  private static final MethodHandle MMAP =
      LINKER.downcallHandle(
          LINKER.defaultLookup().findOrThrow("mmap"),
          FunctionDescriptor.of(
              JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_LONG));
  private static final MethodHandle MUNMAP =
      LINKER.downcallHandle(
          LINKER.defaultLookup().findOrThrow("munmap"),
          FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG));

  private Pieces() {}

  /** Mapped for as long as the arena lives. */
  static MemorySegment map(PassedMemory memory, Arena arena) {
    long base = map(MemorySegment.NULL, memory.bytes(), NOTHING, PRIVATE_ANONYMOUS, -1);
    MemorySegment all =
        MemorySegment.ofAddress(base).reinterpret(memory.bytes(), arena, Pieces::unmap);
    long at = 0;
    for (PassedMemory.Piece piece : memory.pieces()) {
      var _ =
          map(
              all.asSlice(at, piece.bytes()),
              piece.bytes(),
              READ_WRITE,
              SHARED_FIXED,
              piece.descriptor().number());
      at += piece.bytes();
    }
    return all;
  }

  private static long map(
      MemorySegment place, long bytes, int protection, int flags, int descriptor) {
    try {
      long address = (long) MMAP.invokeExact(place, bytes, protection, flags, descriptor, 0L);
      if (address == -1) {
        throw new GpuException(
            "cuMemImportFromShareableHandle: CUDA_ERROR_INVALID_VALUE", INVALID_VALUE);
      }
      return address;
    } catch (RuntimeException e) {
      throw e;
    } catch (Throwable t) {
      throw new IllegalStateException(t);
    }
  }

  private static void unmap(MemorySegment all) {
    try {
      var _ = (int) MUNMAP.invokeExact(all, all.byteSize());
    } catch (Throwable t) {
      throw new IllegalStateException(t);
    }
  }
}
