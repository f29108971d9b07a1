package io.kvtier.tiers.gpu;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The driver's functions that are called for every batch, those that JCuda lacks, and those that
 * say whether there is a driver at all: {@code cuda.h}, of CUDA 12.0 and, where the driver has
 * them, newer. Each gives the driver's number of an error, 0 for none.
 */
@SuppressWarnings("restricted") // the driver's own functions, as its header declares them
final class CudaCalls {
  static final int SUCCESS = 0;
  static final int NOT_READY = 600;

  private static final int HOST_REGISTER_PORTABLE = 1;
  private static final int HOST_REGISTER_DEVICE_MAP = 2;
  private static final int IPC_LAZY_ENABLE_PEER_ACCESS = 1;

  /** CUipcMemHandle and CUipcEventHandle, which go by value; JCuda's can't be made of bytes. */
  private static final MemoryLayout IPC_HANDLE =
      MemoryLayout.structLayout(
          MemoryLayout.sequenceLayout(IpcHandle.BYTES, ValueLayout.JAVA_BYTE));

  private static final int ATTRIBUTE_DEVICE_ORDINAL = 9;

  /** CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR. */
  private static final int POSIX_DESCRIPTOR = 1;

  // CUmemAccessDesc: the location's type and id, flags.
  private static final MemoryLayout ACCESS = MemoryLayout.sequenceLayout(3, JAVA_INT);
  private static final int LOCATION_DEVICE = 1;
  private static final int ACCESS_READ_WRITE = 3;

  // CUmemcpyAttributes: srcAccessOrder, two hints of a location (type, id), flags.
  private static final MemoryLayout COPY_ATTRIBUTES = MemoryLayout.sequenceLayout(6, JAVA_INT);
  private static final int ACCESS_ORDER_STREAM = 1;
  private static final int PREFER_OVERLAP_WITH_COMPUTE = 1;
  private static final int FLAGS = 5;

  private final Linker linker = Linker.nativeLinker();
  private final SymbolLookup library;
  private final MethodHandle initialise;
  private final MethodHandle driverVersion;
  private final MethodHandle errorName;
  private final MethodHandle errorString;
  private final MethodHandle setContext;
  private final MethodHandle copy;
  private final MethodHandle launch;
  private final MethodHandle recordEvent;
  private final MethodHandle queryEvent;
  private final MethodHandle await;
  private final MethodHandle synchronize;
  private final MethodHandle register;
  private final MethodHandle unregister;
  private final MethodHandle devicePointer;
  private final MethodHandle pointerAttribute;
  private final MethodHandle openIpc;
  private final MethodHandle closeIpc;
  private final MethodHandle shareIpc;
  private final MethodHandle importMemory;
  private final MethodHandle releaseMemory;
  private final MethodHandle reserveAddresses;
  private final MethodHandle freeAddresses;
  private final MethodHandle mapMemory;
  private final MethodHandle unmapMemory;
  private final MethodHandle setAccess;
  private final MethodHandle openIpcEvent;
  private final MethodHandle destroyEvent;
  private final @Nullable MethodHandle copyBatch;
  private final @Nullable MethodHandle copyBatchWithFailure;

  private final MemorySegment copyAttributes;
  private final MemorySegment copyAttributesFrom;

  /**
   * Links the functions.
   *
   * @throws java.util.NoSuchElementException naming one that the library lacks
   */
  CudaCalls(SymbolLookup library) {
    this.library = library;
    initialise = link("cuInit", JAVA_INT);
    driverVersion = link("cuDriverGetVersion", ADDRESS);
    errorName = link("cuGetErrorName", JAVA_INT, ADDRESS);
    errorString = link("cuGetErrorString", JAVA_INT, ADDRESS);
    setContext = link("cuCtxSetCurrent", JAVA_LONG);
    copy = link("cuMemcpyAsync", JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG);
    launch =
        link(
            "cuLaunchKernel",
            JAVA_LONG,
            JAVA_INT,
            JAVA_INT,
            JAVA_INT,
            JAVA_INT,
            JAVA_INT,
            JAVA_INT,
            JAVA_INT,
            JAVA_LONG,
            ADDRESS,
            ADDRESS);
    recordEvent = link("cuEventRecord", JAVA_LONG, JAVA_LONG);
    queryEvent = link("cuEventQuery", JAVA_LONG);
    await = link("cuStreamWaitEvent", JAVA_LONG, JAVA_LONG, JAVA_INT);
    synchronize = link("cuStreamSynchronize", JAVA_LONG);
    register = link("cuMemHostRegister_v2", ADDRESS, JAVA_LONG, JAVA_INT);
    unregister = link("cuMemHostUnregister", ADDRESS);
    devicePointer = link("cuMemHostGetDevicePointer_v2", ADDRESS, ADDRESS, JAVA_INT);
    pointerAttribute = link("cuPointerGetAttribute", ADDRESS, JAVA_INT, JAVA_LONG);
    openIpc = link("cuIpcOpenMemHandle_v2", ADDRESS, IPC_HANDLE, JAVA_INT);
    closeIpc = link("cuIpcCloseMemHandle", JAVA_LONG);
    shareIpc = link("cuIpcGetMemHandle", ADDRESS, JAVA_LONG);
    importMemory = link("cuMemImportFromShareableHandle", ADDRESS, JAVA_LONG, JAVA_INT);
    releaseMemory = link("cuMemRelease", JAVA_LONG);
    reserveAddresses =
        link("cuMemAddressReserve", ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG);
    freeAddresses = link("cuMemAddressFree", JAVA_LONG, JAVA_LONG);
    mapMemory = link("cuMemMap", JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG);
    unmapMemory = link("cuMemUnmap", JAVA_LONG, JAVA_LONG);
    setAccess = link("cuMemSetAccess", JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG);
    openIpcEvent = link("cuIpcOpenEventHandle", ADDRESS, IPC_HANDLE);
    destroyEvent = link("cuEventDestroy_v2", JAVA_LONG);
    copyBatch =
        linkIfThere(
            "cuMemcpyBatchAsync_v2",
            ADDRESS,
            ADDRESS,
            ADDRESS,
            JAVA_LONG,
            ADDRESS,
            ADDRESS,
            JAVA_LONG,
            JAVA_LONG);
    // CUDA 12.8 and 12.9: one argument more.
    copyBatchWithFailure =
        linkIfThere(
            "cuMemcpyBatchAsync",
            ADDRESS,
            ADDRESS,
            ADDRESS,
            JAVA_LONG,
            ADDRESS,
            ADDRESS,
            JAVA_LONG,
            ADDRESS,
            JAVA_LONG);
    copyAttributes = Arena.global().allocate(COPY_ATTRIBUTES);
    copyAttributes.setAtIndex(JAVA_INT, 0, ACCESS_ORDER_STREAM);
    copyAttributes.setAtIndex(JAVA_INT, FLAGS, PREFER_OVERLAP_WITH_COMPUTE);
    copyAttributesFrom = Arena.global().allocate(JAVA_LONG);
  }

  private MethodHandle link(String name, MemoryLayout... arguments) {
    return linker.downcallHandle(
        library.findOrThrow(name), FunctionDescriptor.of(JAVA_INT, arguments));
  }

  private @Nullable MethodHandle linkIfThere(String name, MemoryLayout... arguments) {
    Optional<MemorySegment> address = library.find(name);
    return address.isEmpty()
        ? null
        : linker.downcallHandle(address.get(), FunctionDescriptor.of(JAVA_INT, arguments));
  }

  int initialise() {
    try {
      return (int) initialise.invokeExact(0);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** As 12080 for CUDA 12.8; 0 where the driver does not say. */
  int driverVersion() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment version = arena.allocate(JAVA_INT);
      int ignored = (int) driverVersion.invokeExact(version);
      return version.get(JAVA_INT, 0);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** The name and the meaning of an error. */
  String explain(int code) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment name = arena.allocate(ADDRESS);
      MemorySegment meaning = arena.allocate(ADDRESS);
      int a = (int) errorName.invokeExact(code, name);
      int b = (int) errorString.invokeExact(code, meaning);
      if (a != SUCCESS || b != SUCCESS) {
        return "CUDA error " + code;
      }
      return text(name) + " (" + text(meaning) + ")";
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  private static String text(MemorySegment pointer) {
    return pointer.get(ADDRESS, 0).reinterpret(Long.MAX_VALUE).getString(0);
  }

  int setContext(long context) {
    try {
      return (int) setContext.invokeExact(context);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  int copy(long target, long source, long bytes, long stream) {
    try {
      return (int) copy.invokeExact(target, source, bytes, stream);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  boolean hasBatchCopies() {
    return copyBatch != null || copyBatchWithFailure != null;
  }

  int copyBatch(
      MemorySegment targets,
      MemorySegment sources,
      MemorySegment lengths,
      long count,
      long stream) {
    MethodHandle function = copyBatch;
    MethodHandle older = copyBatchWithFailure;
    try {
      if (function != null) {
        return (int)
            function.invokeExact(
                targets, sources, lengths, count, copyAttributes, copyAttributesFrom, 1L, stream);
      }
      if (older == null) {
        throw new IllegalStateException("the driver has no batched copies");
      }
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment failed = arena.allocate(JAVA_LONG);
        return (int)
            older.invokeExact(
                targets,
                sources,
                lengths,
                count,
                copyAttributes,
                copyAttributesFrom,
                1L,
                failed,
                stream);
      }
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /**
   * Launches a kernel.
   *
   * @param values its parameters: addresses, or numbers of 32 bits
   */
  int launch(long function, int threadBlocks, long stream, long... values) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment parameters = arena.allocateFrom(JAVA_LONG, values);
      MemorySegment arguments = arena.allocate(ADDRESS, values.length);
      for (int i = 0; i < values.length; i++) {
        arguments.setAtIndex(ADDRESS, i, parameters.asSlice((long) i * Long.BYTES));
      }
      return (int)
          launch.invokeExact(
              function,
              threadBlocks,
              1,
              1,
              RunTable.BLOCK_THREADS,
              1,
              1,
              0,
              stream,
              arguments,
              MemorySegment.NULL);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  int record(long event, long stream) {
    try {
      return (int) recordEvent.invokeExact(event, stream);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  int query(long event) {
    try {
      return (int) queryEvent.invokeExact(event);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  int await(long stream, long event) {
    try {
      return (int) await.invokeExact(stream, event, 0);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  int synchronize(long stream) {
    try {
      return (int) synchronize.invokeExact(stream);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  int register(MemorySegment host) {
    try {
      return (int)
          register.invokeExact(
              host, host.byteSize(), HOST_REGISTER_PORTABLE | HOST_REGISTER_DEVICE_MAP);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  int unregister(MemorySegment host) {
    try {
      return (int) unregister.invokeExact(host);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** Where the device sees registered host memory, in the first word of the result. */
  int devicePointer(MemorySegment result, MemorySegment host) {
    try {
      return (int) devicePointer.invokeExact(result, host, 0);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** Which device an address is on, in the first 32 bits of the result. */
  int deviceOrdinal(MemorySegment result, long address) {
    try {
      return (int) pointerAttribute.invokeExact(result, ATTRIBUTE_DEVICE_ORDINAL, address);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** Opens an allocation of another process, whose address is in the first word of the result. */
  int openIpc(MemorySegment result, MemorySegment handle) {
    try {
      return (int) openIpc.invokeExact(result, handle, IPC_LAZY_ENABLE_PEER_ACCESS);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  int closeIpc(long address) {
    try {
      return (int) closeIpc.invokeExact(address);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** The handle of an allocation of ours, into the 64 bytes of the result. */
  int shareIpc(MemorySegment result, long address) {
    try {
      return (int) shareIpc.invokeExact(result, address);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** Opens what another process has exported; its handle is the first word of the result. */
  int importMemory(MemorySegment result, int descriptor) {
    try {
      return (int) importMemory.invokeExact(result, (long) descriptor, POSIX_DESCRIPTOR);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** Lets go of a handle; what is mapped of its memory stays. */
  int releaseMemory(long handle) {
    try {
      return (int) releaseMemory.invokeExact(handle);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** Takes addresses, the first of which is the first word of the result. */
  int reserveAddresses(MemorySegment result, long bytes) {
    try {
      return (int) reserveAddresses.invokeExact(result, bytes, 0L, 0L, 0L);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  int freeAddresses(long address, long bytes) {
    try {
      return (int) freeAddresses.invokeExact(address, bytes);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** Puts all memory of a handle under addresses that were reserved. */
  int mapMemory(long address, long bytes, long handle) {
    try {
      return (int) mapMemory.invokeExact(address, bytes, 0L, handle, 0L);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  int unmapMemory(long address, long bytes) {
    try {
      return (int) unmapMemory.invokeExact(address, bytes);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** Lets one more device read and write what is mapped. */
  int setAccess(long address, long bytes, int ordinal) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment access = arena.allocate(ACCESS);
      access.setAtIndex(JAVA_INT, 0, LOCATION_DEVICE);
      access.setAtIndex(JAVA_INT, 1, ordinal);
      access.setAtIndex(JAVA_INT, 2, ACCESS_READ_WRITE);
      return (int) setAccess.invokeExact(address, bytes, access, 1L);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** Opens an event of another process, which is the first word of the result. */
  int openIpcEvent(MemorySegment result, MemorySegment handle) {
    try {
      return (int) openIpcEvent.invokeExact(result, handle);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  int destroyEvent(long event) {
    try {
      return (int) destroyEvent.invokeExact(event);
    } catch (Throwable t) {
      throw defect(t);
    }
  }

  /** No call throws by itself: what comes out is a defect, or the JVM at its end. */
  private static RuntimeException defect(Throwable t) {
    if (t instanceof Error error) {
      throw error;
    }
    return t instanceof RuntimeException e ? e : new IllegalStateException(t);
  }
}
