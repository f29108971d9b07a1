package io.kvtier.tiers.gpu;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** Maps {@link PassedMemory}, its pieces one behind the other, for one GPU. */
final class CudaPieces {
  private final CudaCalls calls;
  private final int ordinal;

  CudaPieces(CudaCalls calls, int ordinal) {
    this.calls = calls;
    this.ordinal = ordinal;
  }

  /**
   * Maps all pieces, which this GPU can read and write then.
   *
   * @return where
   * @throws GpuException naming the piece that is none, or not of that size; nothing is mapped then
   */
  long map(PassedMemory memory) {
    long address = reserve(memory.bytes());
    long mapped = 0;
    try {
      for (int i = 0; i < memory.pieces().size(); i++) {
        PassedMemory.Piece piece = memory.pieces().get(i);
        map(address + mapped, piece, i);
        mapped += piece.bytes();
      }
      check(calls.setAccess(address, mapped, ordinal), "cuMemSetAccess");
      return address;
    } catch (GpuException e) {
      unmap(address, mapped, memory);
      throw e;
    }
  }

  /** Ends {@link #map}. */
  void unmap(long address, PassedMemory memory) {
    unmap(address, memory.bytes(), memory);
  }

  private void unmap(long address, long mapped, PassedMemory memory) {
    long at = 0;
    for (PassedMemory.Piece piece : memory.pieces()) {
      if (at < mapped) {
        check(calls.unmapMemory(address + at, piece.bytes()), "cuMemUnmap");
      }
      at += piece.bytes();
    }
    check(calls.freeAddresses(address, memory.bytes()), "cuMemAddressFree");
  }

  private long reserve(long bytes) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment result = arena.allocate(ValueLayout.JAVA_LONG);
      check(calls.reserveAddresses(result, bytes), "cuMemAddressReserve of " + bytes + " bytes");
      return result.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  private void map(long address, PassedMemory.Piece piece, int number) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment result = arena.allocate(ValueLayout.JAVA_LONG);
      check(
          calls.importMemory(result, piece.descriptor().number()),
          "cuMemImportFromShareableHandle of piece " + number);
      long handle = result.get(ValueLayout.JAVA_LONG, 0);
      try {
        check(
            calls.mapMemory(address, piece.bytes(), handle),
            "cuMemMap of piece " + number + ", of " + piece.bytes() + " bytes");
      } finally {
        // What is mapped stays until it is unmapped.
        int ignored = calls.releaseMemory(handle);
      }
    }
  }

  private void check(int result, String call) {
    if (result != CudaCalls.SUCCESS) {
      throw new GpuException(call + ": " + calls.explain(result), result);
    }
  }
}
