package io.kvtier.daemon.gpu;

import io.kvtier.tiers.gpu.DeviceMapping;
import io.kvtier.tiers.gpu.DeviceMemory;
import io.kvtier.tiers.gpu.Gpu;
import io.kvtier.tiers.gpu.GpuDevice;
import io.kvtier.tiers.gpu.GpuDriver;
import io.kvtier.tiers.gpu.GpuEvent;
import io.kvtier.tiers.gpu.GpuException;
import io.kvtier.tiers.gpu.GpuStream;
import io.kvtier.tiers.gpu.GranuleTable;
import io.kvtier.tiers.gpu.IpcHandle;
import io.kvtier.tiers.gpu.PassedMemory;
import io.kvtier.tiers.gpu.PlainGranules;
import io.kvtier.tiers.gpu.RunTable;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * A GPU whose memory is files of shared memory: an IPC handle is a file's path, padded with zeros,
 * and an event of another process a file whose first word is 1 when it is done. What is put into
 * streams is done in the order in which it came, after a delay if there shall be one, whenever
 * somebody asks for an event.
 *
 * <p>A file named {@code fail} in its folder makes every call an error of CUDA's from then on.
 */
public final class FileGpu implements Gpu, GpuDriver {
  public static final String PCI_ID = "0000:f1:1e.0";

  /** What engines call it. */
  public static final String UUID = "GPU-f11e0000-0000-0000-0000-000000000001";

  /** And its sibling, whose files' names end with "other". */
  public static final String OTHER_UUID = "GPU-f11e0000-0000-0000-0000-000000000002";

  private static final int ILLEGAL_ADDRESS = 700;
  private static final int INVALID_VALUE = 1;
  private static final int INVALID_CONTEXT = 201;

  private record Work(Runnable what, long notBeforeNs) {}

  private record Opened(Arena arena, DeviceMapping mapping) {}

  private final Path folder;
  private final long delayNs;
  private final int ordinal;
  private @Nullable FileGpu sibling;
  private final Map<Long, MemorySegment> allocations = new HashMap<>();
  private final Map<Long, Arena> arenas = new HashMap<>();
  private final Map<DeviceMemory, Opened> opened = new HashMap<>();
  private final Map<DeviceMemory, Integer> times = new HashMap<>();
  private final Map<Long, Integer> recorded = new HashMap<>();
  private final Map<Long, Integer> reached = new HashMap<>();
  private final Map<Long, MemorySegment> foreign = new HashMap<>();
  private final ArrayDeque<Work> works = new ArrayDeque<>();
  private long nextHandle = 1;
  private boolean isFailed;
  private volatile long codingNs;
  private int contexts;
  private boolean holds;
  private volatile boolean isApart;
  private volatile boolean breaksKernel;
  private volatile CountDownLatch mayMap = new CountDownLatch(0);

  /**
   * A GPU.
   *
   * @param folder where the engines' files are
   * @param delayMs how long every copy takes, once a region was opened
   */
  public FileGpu(Path folder, long delayMs) {
    this(folder, delayMs, 0);
  }

  private FileGpu(Path folder, long delayMs, int ordinal) {
    this.folder = folder;
    this.delayNs = delayMs * 1_000_000;
    this.ordinal = ordinal;
  }

  /** A second GPU of the same machine, each of which reaches the other. */
  public FileGpu addSibling() {
    FileGpu other = new FileGpu(folder, delayNs / 1_000_000, 1);
    sibling = other;
    other.sibling = this;
    return other;
  }

  /** From now on the two do not reach each other's memory. */
  public void part() {
    isApart = true;
  }

  /** The handle of a file. */
  public static String handle(Path file) {
    byte[] name = file.toString().getBytes(StandardCharsets.UTF_8);
    byte[] bytes = new byte[IpcHandle.BYTES];
    System.arraycopy(name, 0, bytes, 0, name.length);
    return HexFormat.of().formatHex(bytes);
  }

  private static Path path(IpcHandle handle) {
    byte[] bytes = HexFormat.of().parseHex(handle.toString());
    return Path.of(new String(bytes, StandardCharsets.UTF_8).replace("\0", ""));
  }

  private synchronized void call() {
    isFailed |= folder.resolve("fail").toFile().exists();
    if (isFailed) {
      throw new GpuException("cuEventQuery: CUDA_ERROR_ILLEGAL_ADDRESS", ILLEGAL_ADDRESS);
    }
  }

  @Override
  public String version() {
    return "files in " + folder;
  }

  @Override
  public List<GpuDevice> devices() {
    FileGpu other = sibling;
    return other == null ? List.of(device()) : List.of(device(), other.device());
  }

  @Override
  public synchronized Gpu open(GpuDevice device) {
    FileGpu other = sibling;
    if (other != null && !device.equals(device())) {
      return other;
    }
    contexts++;
    return this;
  }

  /** How often a context was made, which takes memory of the device. */
  public synchronized int contexts() {
    return contexts;
  }

  /** What was allocated and not freed. */
  public synchronized long allocatedBytes() {
    return allocations.values().stream().mapToLong(MemorySegment::byteSize).sum();
  }

  @Override
  public GpuDevice device() {
    return ordinal == 0
        ? new GpuDevice(0, UUID, PCI_ID, "files", 1, 1L << 30)
        : new GpuDevice(1, OTHER_UUID, "0000:f1:1f.0", "files", 1, 1L << 30);
  }

  @Override
  public synchronized long allocate(long bytes) {
    Arena arena = Arena.ofShared();
    MemorySegment memory = arena.allocate(bytes, 4096);
    allocations.put(memory.address(), memory);
    arenas.put(memory.address(), arena);
    return memory.address();
  }

  @Override
  public synchronized void free(long address) {
    allocations.remove(address);
    Arena arena = arenas.remove(address);
    if (arena != null) {
      arena.close();
    }
  }

  @Override
  public long register(MemorySegment host) {
    call();
    return host.address();
  }

  @Override
  public void unregister(MemorySegment host) {}

  @Override
  public synchronized GpuStream createStream(boolean urgent) {
    return new GpuStream(nextHandle++);
  }

  @Override
  public void destroy(GpuStream stream) {}

  @Override
  public synchronized GpuEvent createEvent() {
    GpuEvent event = new GpuEvent(nextHandle++);
    recorded.put(event.handle(), 0);
    reached.put(event.handle(), 0);
    return event;
  }

  @Override
  public synchronized void destroy(GpuEvent event) {
    recorded.remove(event.handle());
    reached.remove(event.handle());
    foreign.remove(event.handle());
  }

  @Override
  public synchronized GpuEvent openEvent(IpcHandle handle) {
    GpuEvent event = new GpuEvent(nextHandle++);
    foreign.put(event.handle(), map(path(handle), Arena.ofAuto()));
    return event;
  }

  private static MemorySegment map(Path file, Arena arena) {
    try (FileChannel channel =
        FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      return channel.map(FileChannel.MapMode.READ_WRITE, 0, channel.size(), arena);
    } catch (IOException e) {
      throw new GpuException("cuIpcOpenMemHandle: CUDA_ERROR_INVALID_VALUE", INVALID_VALUE);
    }
  }

  @Override
  public IpcHandle share(long address) {
    throw new GpuException("cuIpcGetMemHandle: not for files", INVALID_VALUE);
  }

  @Override
  public synchronized DeviceMapping open(DeviceMemory memory) {
    call();
    DeviceMapping mapping =
        opened
            .computeIfAbsent(
                memory,
                _ ->
                    switch (memory) {
                      case IpcHandle handle -> openFile(path(handle));
                      case PassedMemory passed -> openPieces(passed);
                    })
            .mapping();
    times.merge(memory, 1, Integer::sum);
    return mapping;
  }

  private static Opened openFile(Path file) {
    if (file.toString().equals("own")) {
      throw new GpuException("cuIpcOpenMemHandle: CUDA_ERROR_INVALID_CONTEXT", INVALID_CONTEXT);
    }
    Arena arena = Arena.ofShared();
    MemorySegment memory = map(file, arena);
    int place = file.toString().endsWith("other") ? 1 : 0;
    return new Opened(arena, new DeviceMapping(memory.address(), memory.byteSize(), place));
  }

  /** Pieces are files of memory, which lie one behind the other as CUDA's do. */
  private static Opened openPieces(PassedMemory passed) {
    Arena arena = Arena.ofShared();
    try {
      long address = Pieces.map(passed, arena).address();
      return new Opened(arena, new DeviceMapping(address, passed.bytes(), 0));
    } catch (GpuException e) {
      arena.close();
      throw e;
    }
  }

  @Override
  public boolean reaches(Gpu other) {
    call();
    return other == this || !isApart;
  }

  @Override
  public long openPeer(DeviceMemory memory, DeviceMapping owners) {
    try {
      mayMap.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(e);
    }
    return memory instanceof PassedMemory ? owners.address() : open(memory).address();
  }

  /** From now on this GPU maps no memory of another, until the latch is open. */
  public CountDownLatch holdMappings() {
    CountDownLatch held = new CountDownLatch(1);
    mayMap = held;
    return held;
  }

  @Override
  public synchronized void close(DeviceMemory memory) {
    if (opened.containsKey(memory) && times.merge(memory, -1, Integer::sum) == 0) {
      Opened last = opened.remove(memory);
      if (last != null) {
        last.arena().close();
      }
    }
  }

  /** The next kernel is an error of CUDA's. */
  public void breakKernel() {
    breaksKernel = true;
  }

  /** From now on nothing that is put into streams is done, until {@link #letGo}. */
  public synchronized void hold() {
    holds = true;
  }

  /** What was held is done, and what comes. */
  public synchronized void letGo() {
    holds = false;
  }

  /** How much stands in streams and is not done. */
  public synchronized int waiting() {
    return works.size();
  }

  /** How many mappings are open. */
  public synchronized int mappings() {
    return opened.size();
  }

  @Override
  public boolean hasBatchCopies() {
    return true;
  }

  private synchronized void put(Runnable what) {
    works.add(new Work(what, System.nanoTime() + (opened.isEmpty() ? 0 : delayNs)));
  }

  @Override
  public void copy(GpuStream stream, long target, long source, long bytes) {
    call();
    put(() -> move(source, target, bytes));
  }

  @Override
  public void copyBatch(
      GpuStream stream,
      MemorySegment targets,
      MemorySegment sources,
      MemorySegment lengths,
      int count) {
    call();
    for (int i = 0; i < count; i++) {
      long target = targets.getAtIndex(ValueLayout.JAVA_LONG, i);
      long source = sources.getAtIndex(ValueLayout.JAVA_LONG, i);
      long bytes = lengths.getAtIndex(ValueLayout.JAVA_LONG, i);
      put(() -> move(source, target, bytes));
    }
  }

  @Override
  public void copyTable(
      GpuStream stream, long table, int forms, int count, int pieces, int threadBlocks) {
    launch();
    put(() -> {
      MemorySegment entries = at(table, RunTable.bytes(count));
      RunTable.requireForms(entries, forms, count);
      for (int i = 0; i < count; i++) {
        RunTable.visit(entries, i, pieces, FileGpu::move);
      }
    });
  }

  /** Kernels that encode or decode take so long. */
  public void slowDownCoding(long kernelNs) {
    codingNs = kernelNs;
  }

  private void launch() {
    call();
    if (breaksKernel) {
      breaksKernel = false;
      throw new GpuException("cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS", ILLEGAL_ADDRESS);
    }
  }

  @Override
  public void encode(GpuStream stream, GranuleTable table, int threadBlocks) {
    launch();
    LockSupport.parkNanos(codingNs);
    put(() -> new PlainGranules(table, FileGpu::at).encode());
  }

  @Override
  public void decode(GpuStream stream, GranuleTable table, int threadBlocks) {
    launch();
    LockSupport.parkNanos(codingNs);
    put(() -> new PlainGranules(table, FileGpu::at).decode());
  }

  @Override
  public synchronized void record(GpuEvent event, GpuStream stream) {
    call();
    int time = recorded.merge(event.handle(), 1, Integer::sum);
    put(() -> reached.put(event.handle(), time));
  }

  @Override
  public void await(GpuStream stream, GpuEvent event) {
    // All streams are one.
  }

  @Override
  public synchronized boolean isDone(GpuEvent event) {
    call();
    @Nullable MemorySegment word = foreign.get(event.handle());
    if (word != null) {
      return word.get(ValueLayout.JAVA_INT, 0) == 1;
    }
    long now = System.nanoTime();
    for (Work work = works.peek();
        work != null && work.notBeforeNs <= now && !holds;
        work = works.peek()) {
      works.remove().what.run();
    }
    Integer wanted = recorded.get(event.handle());
    return wanted != null && wanted.equals(reached.get(event.handle()));
  }

  @Override
  public synchronized void synchronize(GpuStream stream) {
    for (Work work = works.poll(); work != null; work = works.poll()) {
      work.what.run();
    }
  }

  @Override
  public synchronized void close() {
    opened.values().forEach(one -> one.arena().close());
    opened.clear();
  }

  private static void move(long source, long target, long bytes) {
    at(target, bytes).copyFrom(at(source, bytes));
  }

  @SuppressWarnings("restricted") // addresses are the device's
  private static MemorySegment at(long address, long bytes) {
    return MemorySegment.ofAddress(address).reinterpret(bytes);
  }
}
