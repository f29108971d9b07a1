package io.kvtier.tiers.gpu;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import org.jspecify.annotations.Nullable;

/**
 * A GPU of host memory. What is put into its streams is done later, a step at a time, each of a
 * stream that chance chooses: whoever forgets to wait for something sees it sooner or later. A step
 * happens whenever somebody asks for an event.
 */
final class FakeGpu implements Gpu, GpuDriver {
  static final String UUID = "GPU-00000000-0000-0000-0000-000000000001";
  private static final int SLACK_BYTES = 4096;
  private static final long CALL_NS = 2000;
  private static final long LINK_BYTES_PER_NS = 50;

  private final Random random;
  private final Arena arena = Arena.ofShared();
  private final Map<Long, ArrayDeque<Runnable>> streams = new HashMap<>();
  private final Map<Long, Integer> recorded = new HashMap<>();
  private final Map<Long, Integer> reached = new HashMap<>();
  private final Map<Long, Long> allocations = new HashMap<>();
  private final Map<DeviceMemory, DeviceMapping> shared = new HashMap<>();
  private final Map<DeviceMemory, Integer> opened = new HashMap<>();
  private final List<MemorySegment> registered = new ArrayList<>();
  private long nextHandle = 1;
  private int deviceOrdinal;

  /** How many copies and kernels were asked for, by kind. */
  int plainCopies;

  int batchCopies;
  int kernels;

  /** Thread blocks of the last kernel that encoded or decoded. */
  int encodingBlocks;

  /** Thread blocks of the last kernel that copied. */
  int copyingBlocks;

  /** Calls until one fails; negative: none does. */
  int callsUntilFailure = -1;

  /** Nothing can be allocated, however little. */
  boolean isBroken;

  boolean hasBatchCopies = true;

  /** Whether it sees other GPUs' memory. */
  boolean reachesOthers = true;

  /** How much memory there is to allocate. */
  long memoryBytes = Long.MAX_VALUE;

  /** While it is set, kernels wait, as beside those of a busy engine. */
  boolean holdsKernels;

  /** The time, by what was asked for: each call takes some, and all that goes over the link. */
  long nowNs;

  /** How long a kernel takes to encode or decode. */
  long codingNs;

  /** Between these two moments everything takes ten times as long. */
  long slowFromNs;

  long slowUntilNs;

  FakeGpu(long seed) {
    random = new Random(seed);
  }

  @Override
  public String version() {
    return "fake";
  }

  @Override
  public List<GpuDevice> devices() {
    return List.of(device());
  }

  @Override
  public Gpu open(GpuDevice device) {
    return this;
  }

  @Override
  public GpuDevice device() {
    return new GpuDevice(0, UUID, "0000:00:00.0", "fake", 1, 1 << 30);
  }

  @Override
  public long allocate(long bytes) {
    call();
    if (isBroken) {
      throw new GpuException("cuMemAlloc: CUDA_ERROR_ECC_UNCORRECTABLE", 214);
    }
    long used = allocations.values().stream().mapToLong(Long::longValue).sum();
    if (bytes > memoryBytes - used) {
      throw new GpuException("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY", 2);
    }
    // Noise, so that what was not copied is not right by chance.
    MemorySegment memory = arena.allocate(bytes + SLACK_BYTES, 256);
    fill(memory, random);
    allocations.put(memory.address(), bytes);
    return memory.address();
  }

  static void fill(MemorySegment memory, Random random) {
    byte[] noise = new byte[(int) memory.byteSize()];
    random.nextBytes(noise);
    MemorySegment.copy(noise, 0, memory, ValueLayout.JAVA_BYTE, 0, noise.length);
  }

  @Override
  public void free(long address) {
    if (allocations.remove(address) == null) {
      throw new GpuException("nothing is allocated at " + address, 1);
    }
  }

  @Override
  public long register(MemorySegment host) {
    call();
    registered.add(host);
    return host.address();
  }

  @Override
  public void unregister(MemorySegment host) {
    if (!registered.removeIf(memory -> memory.address() == host.address())) {
      throw new GpuException("nothing is registered at " + host, 1);
    }
  }

  @Override
  public GpuStream createStream(boolean urgent) {
    call();
    GpuStream stream = new GpuStream(nextHandle++);
    streams.put(stream.handle(), new ArrayDeque<>());
    return stream;
  }

  @Override
  public void destroy(GpuStream stream) {
    synchronize(stream);
    streams.remove(stream.handle());
  }

  @Override
  public GpuEvent createEvent() {
    call();
    GpuEvent event = new GpuEvent(nextHandle++);
    recorded.put(event.handle(), 0);
    reached.put(event.handle(), 0);
    return event;
  }

  @Override
  public void destroy(GpuEvent event) {
    recorded.remove(event.handle());
    reached.remove(event.handle());
  }

  /** Lets another process's allocation be opened by a handle. */
  IpcHandle share(long address, long bytes) {
    byte[] name = new byte[IpcHandle.BYTES];
    random.nextBytes(name);
    IpcHandle handle = new IpcHandle(name);
    shared.put(handle, new DeviceMapping(address, bytes, deviceOrdinal));
    return handle;
  }

  @Override
  public IpcHandle share(long address) {
    return share(address, Objects.requireNonNull(allocations.get(address)));
  }

  @Override
  public GpuEvent openEvent(IpcHandle handle) {
    return createEvent();
  }

  /** From now on it can open what another has shared. */
  void adopt(FakeGpu other) {
    shared.putAll(other.shared);
  }

  void shareOnDevice(int ordinal) {
    deviceOrdinal = ordinal;
  }

  @Override
  public DeviceMapping open(DeviceMemory memory) {
    call();
    DeviceMapping mapping = shared.get(memory);
    if (mapping == null) {
      throw new GpuException("cuIpcOpenMemHandle: CUDA_ERROR_INVALID_VALUE", 1);
    }
    opened.merge(memory, 1, Integer::sum);
    return mapping;
  }

  @Override
  public boolean reaches(Gpu other) {
    call();
    return other == this || reachesOthers;
  }

  @Override
  public long openPeer(DeviceMemory memory, DeviceMapping owners) {
    return open(memory).address();
  }

  @Override
  public void close(DeviceMemory memory) {
    if (opened.merge(memory, -1, Integer::sum) < 0) {
      throw new GpuException("closed more often than opened", 1);
    }
  }

  /** How many mappings are open, counted. */
  int openMappings() {
    return opened.values().stream().mapToInt(Integer::intValue).sum();
  }

  /** How many events there are. */
  int events() {
    return recorded.size();
  }

  boolean hasNothingLeft() {
    return allocations.isEmpty() && registered.isEmpty() && streams.isEmpty() && recorded.isEmpty();
  }

  @Override
  public boolean hasBatchCopies() {
    return hasBatchCopies;
  }

  @Override
  public void copy(GpuStream stream, long target, long source, long bytes) {
    call();
    plainCopies++;
    spend(bytes);
    put(stream, () -> move(source, target, bytes));
  }

  @Override
  public void copyBatch(
      GpuStream stream,
      MemorySegment targets,
      MemorySegment sources,
      MemorySegment lengths,
      int count) {
    call();
    batchCopies++;
    for (int i = 0; i < count; i++) {
      spend(lengths.getAtIndex(ValueLayout.JAVA_LONG, i));
      long target = targets.getAtIndex(ValueLayout.JAVA_LONG, i);
      long source = sources.getAtIndex(ValueLayout.JAVA_LONG, i);
      long bytes = lengths.getAtIndex(ValueLayout.JAVA_LONG, i);
      put(stream, () -> move(source, target, bytes));
    }
  }

  @Override
  public void copyTable(
      GpuStream stream, long table, int forms, int count, int pieces, int threadBlocks) {
    call();
    kernels++;
    copyingBlocks = threadBlocks;
    CopyOptions usual = CopyOptions.DEFAULT;
    boolean isOverLink = threadBlocks == usual.writeBlocks() || threadBlocks == usual.readBlocks();
    spend(isOverLink ? bytes(table, count) : 0);
    putHold(stream);
    // The table is read when the kernel runs, as a GPU does.
    put(stream, () -> RunTable.requireForms(entries(table, count), forms, count));
    for (int i = 0; i < count; i++) {
      int entry = i;
      put(stream, () -> RunTable.visit(entries(table, count), entry, pieces, FakeGpu::move));
    }
  }

  /** While kernels are held, nothing behind it is done. */
  private void putHold(GpuStream stream) {
    put(
        stream,
        new Runnable() {
          @Override
          public void run() {
            if (holdsKernels) {
              queue(stream).addFirst(this);
            }
          }
        });
  }

  @Override
  public void encode(GpuStream stream, GranuleTable table, int threadBlocks) {
    call();
    kernels++;
    encodingBlocks = threadBlocks;
    spend(0);
    nowNs += codingNs;
    putHold(stream);
    put(stream, () -> new PlainGranules(table, FakeGpu::at).encode());
  }

  @Override
  public void decode(GpuStream stream, GranuleTable table, int threadBlocks) {
    call();
    kernels++;
    encodingBlocks = threadBlocks;
    spend(0);
    nowNs += codingNs;
    putHold(stream);
    put(stream, () -> new PlainGranules(table, FakeGpu::at).decode());
  }

  private static MemorySegment entries(long table, int count) {
    return at(table, RunTable.bytes(count));
  }

  private static long bytes(long table, int count) {
    long[] sum = new long[1];
    for (int i = 0; i < count; i++) {
      RunTable.visit(entries(table, count), i, Integer.MAX_VALUE, (_, _, bytes) -> sum[0] += bytes);
    }
    return sum[0];
  }

  @Override
  public void record(GpuEvent event, GpuStream stream) {
    call();
    int times = recorded.merge(event.handle(), 1, Integer::sum);
    put(stream, () -> reached.put(event.handle(), times));
  }

  @Override
  public void await(GpuStream stream, GpuEvent event) {
    call();
    int times = recorded(event);
    put(
        stream,
        new Runnable() {
          @Override
          public void run() {
            if (reached(event) < times) {
              queue(stream).addFirst(this);
            }
          }
        });
  }

  private int recorded(GpuEvent event) {
    return Objects.requireNonNull(recorded.get(event.handle()));
  }

  private int reached(GpuEvent event) {
    return Objects.requireNonNull(reached.get(event.handle()));
  }

  @Override
  public boolean isDone(GpuEvent event) {
    call();
    for (int i = random.nextInt(4); i > 0; i--) {
      step();
    }
    return reached(event) >= recorded(event);
  }

  @Override
  public void synchronize(GpuStream stream) {
    while (!queue(stream).isEmpty()) {
      step();
    }
  }

  @Override
  public void close() {
    arena.close();
  }

  private void step() {
    List<ArrayDeque<Runnable>> busy =
        streams.values().stream().filter(queue -> !queue.isEmpty()).toList();
    if (!busy.isEmpty()) {
      busy.get(random.nextInt(busy.size())).remove().run();
    }
  }

  private void put(GpuStream stream, Runnable work) {
    queue(stream).add(work);
  }

  private ArrayDeque<Runnable> queue(GpuStream stream) {
    @Nullable ArrayDeque<Runnable> queue = streams.get(stream.handle());
    if (queue == null) {
      throw new GpuException("no stream " + stream.handle(), 400);
    }
    return queue;
  }

  private void call() {
    if (callsUntilFailure == 0) {
      throw new GpuException("CUDA_ERROR_ILLEGAL_ADDRESS", 700);
    }
    if (callsUntilFailure > 0) {
      callsUntilFailure--;
    }
  }

  /** Of one call that moves so many bytes over the link. */
  private void spend(long bytes) {
    boolean slow = nowNs >= slowFromNs && nowNs < slowUntilNs;
    nowNs += (slow ? 10 : 1) * (CALL_NS + bytes / LINK_BYTES_PER_NS);
  }

  private static void move(long source, long target, long bytes) {
    at(target, bytes).copyFrom(at(source, bytes));
  }

  @SuppressWarnings("restricted") // the tests keep within what they allocated
  static MemorySegment at(long address, long bytes) {
    return MemorySegment.ofAddress(address).reinterpret(bytes);
  }
}
