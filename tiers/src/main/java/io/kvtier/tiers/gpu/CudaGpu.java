package io.kvtier.tiers.gpu;

import io.kvtier.layout.encoding.EncodingKind;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import jcuda.driver.CUdevice;
import jcuda.driver.CUdeviceptr;
import jcuda.driver.CUmodule;
import jcuda.driver.JCudaDriver;

/**
 * A GPU through its primary context, the one that other users of CUDA in a process share. Every
 * call sets the context of its thread first: another GPU's may be there.
 */
final class CudaGpu implements Gpu {
  private static final int STREAM_NON_BLOCKING = 1;
  private static final int EVENT_DISABLE_TIMING = 2;
  private static final int HIGHEST_PRIORITY = 1;
  private static final int LOWEST_PRIORITY = 0;

  /** CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED (cuda.h). */
  private static final int PEER_ACCESS_ALREADY_ENABLED = 704;

  private static final int UNKNOWN = -1;

  private final CudaCalls calls;
  private final GpuDevice device;
  private final CUdevice cudaDevice;
  private final CudaHandles.Context context;
  private final CudaHandles.Function copyRuns = new CudaHandles.Function();
  private final GranuleKernels exact = new GranuleKernels();
  private final GranuleKernels fp8 = new GranuleKernels();
  private final int[] priorities = new int[2];
  private final CudaPieces pieces;

  // What was made and not ended yet; guarded by this.
  private final Map<Long, CudaHandles.Stream> streams = new HashMap<>();
  private final Map<Long, CudaHandles.Memory> allocations = new HashMap<>();
  private final Map<DeviceMemory, Opened> mappings = new HashMap<>();

  /** The kernels of an encoding. */
  private static final class GranuleKernels {
    private final CudaHandles.Function encode = new CudaHandles.Function();
    private final CudaHandles.Function decode = new CudaHandles.Function();
  }

  /** A mapping, and how often it was opened. */
  private static final class Opened {
    private final DeviceMapping mapping;
    private int count = 1;

    Opened(DeviceMapping mapping) {
      this.mapping = mapping;
    }
  }

  private CudaGpu(
      CudaCalls calls, GpuDevice device, CUdevice cudaDevice, CudaHandles.Context context) {
    this.calls = calls;
    this.device = device;
    this.cudaDevice = cudaDevice;
    this.context = context;
    this.pieces = new CudaPieces(calls, device.ordinal());
  }

  static CudaGpu open(CudaCalls calls, GpuDevice device) {
    CUdevice cudaDevice = new CUdevice();
    CudaHandles.Context context = new CudaHandles.Context();
    check(calls, JCudaDriver.cuDeviceGet(cudaDevice, device.ordinal()), "cuDeviceGet");
    check(
        calls,
        JCudaDriver.cuDevicePrimaryCtxRetain(context, cudaDevice),
        "cuDevicePrimaryCtxRetain");
    CudaGpu gpu = new CudaGpu(calls, device, cudaDevice, context);
    try {
      gpu.loadKernels();
      return gpu;
    } catch (GpuException e) {
      int ignored = JCudaDriver.cuDevicePrimaryCtxRelease(cudaDevice);
      throw e;
    }
  }

  private void loadKernels() {
    bind();
    int[] lowest = new int[1];
    int[] highest = new int[1];
    check(JCudaDriver.cuCtxGetStreamPriorityRange(lowest, highest), "cuCtxGetStreamPriorityRange");
    priorities[LOWEST_PRIORITY] = lowest[0];
    priorities[HIGHEST_PRIORITY] = highest[0];
    find(copyRuns, load("copy_runs.ptx"), "kvtier_copy_runs");
    for (EncodingKind kind : EncodingKind.values()) {
      CUmodule granules = load(kind.id() + "_granules.ptx");
      find(kernels(kind).encode, granules, "kvtier_encode_granules");
      find(kernels(kind).decode, granules, "kvtier_decode_granules");
    }
  }

  private GranuleKernels kernels(EncodingKind kind) {
    return switch (kind) {
      case EXACT -> exact;
      case FP8 -> fp8;
    };
  }

  private CUmodule load(String resource) {
    CUmodule module = new CUmodule();
    check(JCudaDriver.cuModuleLoadData(module, imageOf(resource)), "cuModuleLoadData");
    return module;
  }

  private void find(CudaHandles.Function kernel, CUmodule module, String name) {
    check(JCudaDriver.cuModuleGetFunction(kernel, module, name), "cuModuleGetFunction");
  }

  /** The PTX of kernels, ended by a zero as the driver wants it. */
  private static byte[] imageOf(String resource) {
    try (InputStream ptx = CudaGpu.class.getResourceAsStream(resource)) {
      if (ptx == null) {
        throw new GpuException("the kernels " + resource + " are not in this build", 0);
      }
      byte[] text = ptx.readAllBytes();
      return Arrays.copyOf(text, text.length + 1);
    } catch (IOException e) {
      throw new GpuException("the kernels can't be read: " + e.getMessage(), 0);
    }
  }

  private void bind() {
    check(calls.setContext(context.number()), "cuCtxSetCurrent");
  }

  private void check(int result, String call) {
    check(calls, result, call);
  }

  private static void check(CudaCalls calls, int result, String call) {
    if (result != CudaCalls.SUCCESS) {
      throw new GpuException(call + ": " + calls.explain(result), result);
    }
  }

  @Override
  public GpuDevice device() {
    return device;
  }

  @Override
  public synchronized long allocate(long bytes) {
    bind();
    CudaHandles.Memory memory = new CudaHandles.Memory();
    check(JCudaDriver.cuMemAlloc(memory, bytes), "cuMemAlloc of " + bytes + " bytes");
    allocations.put(memory.number(), memory);
    return memory.number();
  }

  @Override
  public synchronized void free(long address) {
    bind();
    CudaHandles.Memory memory = allocations.remove(address);
    if (memory == null) {
      throw new IllegalArgumentException("nothing is allocated at " + Long.toHexString(address));
    }
    check(JCudaDriver.cuMemFree(memory), "cuMemFree");
  }

  @Override
  public long register(MemorySegment host) {
    bind();
    check(calls.register(host), "cuMemHostRegister of " + host.byteSize() + " bytes");
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment pointer = arena.allocate(ValueLayout.JAVA_LONG);
      check(calls.devicePointer(pointer, host), "cuMemHostGetDevicePointer");
      return pointer.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  @Override
  public void unregister(MemorySegment host) {
    bind();
    check(calls.unregister(host), "cuMemHostUnregister");
  }

  @Override
  public synchronized GpuStream createStream(boolean urgent) {
    bind();
    CudaHandles.Stream stream = new CudaHandles.Stream();
    int priority = priorities[urgent ? HIGHEST_PRIORITY : LOWEST_PRIORITY];
    check(
        JCudaDriver.cuStreamCreateWithPriority(stream, STREAM_NON_BLOCKING, priority),
        "cuStreamCreateWithPriority");
    streams.put(stream.number(), stream);
    return new GpuStream(stream.number());
  }

  @Override
  public synchronized void destroy(GpuStream stream) {
    bind();
    check(JCudaDriver.cuStreamDestroy(streams.remove(stream.handle())), "cuStreamDestroy");
  }

  @Override
  public GpuEvent createEvent() {
    bind();
    CudaHandles.Event event = new CudaHandles.Event();
    check(JCudaDriver.cuEventCreate(event, EVENT_DISABLE_TIMING), "cuEventCreate");
    return new GpuEvent(event.number());
  }

  @Override
  public void destroy(GpuEvent event) {
    bind();
    check(calls.destroyEvent(event.handle()), "cuEventDestroy");
  }

  @Override
  public GpuEvent openEvent(IpcHandle handle) {
    bind();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment result = arena.allocate(ValueLayout.JAVA_LONG);
      check(calls.openIpcEvent(result, copyOf(handle, arena)), "cuIpcOpenEventHandle");
      return new GpuEvent(result.get(ValueLayout.JAVA_LONG, 0));
    }
  }

  @Override
  public IpcHandle share(long address) {
    bind();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment result = arena.allocate(IpcHandle.BYTES, Long.BYTES);
      check(calls.shareIpc(result, address), "cuIpcGetMemHandle");
      return new IpcHandle(result.toArray(ValueLayout.JAVA_BYTE));
    }
  }

  private static MemorySegment copyOf(IpcHandle handle, Arena arena) {
    return arena
        .allocate(IpcHandle.BYTES, Long.BYTES)
        .copyFrom(MemorySegment.ofArray(handle.bytes()));
  }

  @Override
  public synchronized DeviceMapping open(DeviceMemory memory) {
    Opened known = mappings.get(memory);
    if (known != null) {
      known.count++;
      return known.mapping;
    }
    Opened opened =
        switch (memory) {
          case IpcHandle handle -> open(handle);
          case PassedMemory passed -> open(passed);
        };
    mappings.put(memory, opened);
    return opened.mapping;
  }

  private Opened open(IpcHandle handle) {
    long address = map(handle);
    try {
      return new Opened(new DeviceMapping(address, bytesAt(address), ordinalOf(address)));
    } catch (GpuException e) {
      int ignored = calls.closeIpc(address);
      throw e;
    }
  }

  private Opened open(PassedMemory passed) {
    long address = pieces.map(passed);
    try {
      int owner = ordinalOf(address);
      return new Opened(new DeviceMapping(address, passed.bytes(), owner));
    } catch (GpuException e) {
      pieces.unmap(address, passed);
      throw e;
    }
  }

  private long map(IpcHandle handle) {
    bind();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment result = arena.allocate(ValueLayout.JAVA_LONG);
      check(calls.openIpc(result, copyOf(handle, arena)), "cuIpcOpenMemHandle");
      return result.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  @Override
  public boolean reaches(Gpu other) {
    if (other == this) {
      return true;
    }
    if (!(other instanceof CudaGpu peer)) {
      return false;
    }
    int[] can = new int[1];
    check(
        JCudaDriver.cuDeviceCanAccessPeer(can, cudaDevice, peer.cudaDevice),
        "cuDeviceCanAccessPeer");
    if (can[0] == 0) {
      return false;
    }
    bind();
    int result = JCudaDriver.cuCtxEnablePeerAccess(peer.context, 0);
    if (result != PEER_ACCESS_ALREADY_ENABLED) {
      check(result, "cuCtxEnablePeerAccess");
    }
    return true;
  }

  @Override
  public synchronized long openPeer(DeviceMemory memory, DeviceMapping owners) {
    Opened known = mappings.get(memory);
    if (known != null) {
      known.count++;
      return known.mapping.address();
    }
    long address =
        switch (memory) {
          // In this GPU's own context, as the driver wants it of who is to reach the memory.
          case IpcHandle handle -> map(handle);
          case PassedMemory _ -> {
            bind();
            check(
                calls.setAccess(owners.address(), owners.bytes(), device.ordinal()),
                "cuMemSetAccess");
            yield owners.address();
          }
        };
    // The owner's region was measured where it was opened.
    mappings.put(memory, new Opened(new DeviceMapping(address, 0, UNKNOWN)));
    return address;
  }

  private long bytesAt(long address) {
    long[] bytes = new long[1];
    check(
        JCudaDriver.cuMemGetAddressRange(
            new CudaHandles.Memory(), bytes, new CUdeviceptr().withByteOffset(address)),
        "cuMemGetAddressRange");
    return bytes[0];
  }

  private int ordinalOf(long address) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment ordinal = arena.allocate(ValueLayout.JAVA_INT);
      check(calls.deviceOrdinal(ordinal, address), "cuPointerGetAttribute");
      return ordinal.get(ValueLayout.JAVA_INT, 0);
    }
  }

  @Override
  public synchronized void close(DeviceMemory memory) {
    Opened opened = mappings.get(memory);
    if (opened == null) {
      throw new IllegalArgumentException("the memory is not open: " + memory);
    }
    if (--opened.count > 0) {
      return;
    }
    mappings.remove(memory);
    bind();
    switch (memory) {
      case IpcHandle _ -> check(calls.closeIpc(opened.mapping.address()), "cuIpcCloseMemHandle");
      case PassedMemory passed -> {
        // A peer's access goes with the owner's mapping.
        if (opened.mapping.deviceOrdinal() != UNKNOWN) {
          pieces.unmap(opened.mapping.address(), passed);
        }
      }
    }
  }

  @Override
  public boolean hasBatchCopies() {
    return calls.hasBatchCopies();
  }

  @Override
  public void copy(GpuStream stream, long target, long source, long bytes) {
    bind();
    check(calls.copy(target, source, bytes, stream.handle()), "cuMemcpyAsync");
  }

  @Override
  public void copyBatch(
      GpuStream stream,
      MemorySegment targets,
      MemorySegment sources,
      MemorySegment lengths,
      int count) {
    bind();
    check(calls.copyBatch(targets, sources, lengths, count, stream.handle()), "cuMemcpyBatchAsync");
  }

  @Override
  public void copyTable(
      GpuStream stream, long table, int forms, int count, int pieces, int threadBlocks) {
    bind();
    check(
        calls.launch(copyRuns.number(), threadBlocks, stream.handle(), table, forms, count, pieces),
        "cuLaunchKernel");
  }

  @Override
  public void encode(GpuStream stream, GranuleTable table, int threadBlocks) {
    launch(kernels(table.kind()).encode, stream, table, threadBlocks);
  }

  @Override
  public void decode(GpuStream stream, GranuleTable table, int threadBlocks) {
    launch(kernels(table.kind()).decode, stream, table, threadBlocks);
  }

  private void launch(
      CudaHandles.Function kernel, GpuStream stream, GranuleTable table, int threadBlocks) {
    bind();
    check(
        calls.launch(
            kernel.number(),
            threadBlocks,
            stream.handle(),
            table.address(),
            table.forms(),
            table.entries(),
            table.granules(),
            table.elements(),
            table.flaws()),
        "cuLaunchKernel");
  }

  @Override
  public void record(GpuEvent event, GpuStream stream) {
    bind();
    check(calls.record(event.handle(), stream.handle()), "cuEventRecord");
  }

  @Override
  public void await(GpuStream stream, GpuEvent event) {
    bind();
    check(calls.await(stream.handle(), event.handle()), "cuStreamWaitEvent");
  }

  @Override
  public boolean isDone(GpuEvent event) {
    bind();
    int result = calls.query(event.handle());
    if (result == CudaCalls.NOT_READY) {
      return false;
    }
    check(result, "cuEventQuery");
    return true;
  }

  @Override
  public void synchronize(GpuStream stream) {
    bind();
    check(calls.synchronize(stream.handle()), "cuStreamSynchronize");
  }

  @Override
  public synchronized void close() {
    // With the context's last user goes all that is in it.
    int ignored = JCudaDriver.cuDevicePrimaryCtxRelease(cudaDevice);
  }
}
