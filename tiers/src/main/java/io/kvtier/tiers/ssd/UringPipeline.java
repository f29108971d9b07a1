package io.kvtier.tiers.ssd;

import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Errno;
import io.kvtier.protocol.linux.EventFd;
import io.kvtier.protocol.linux.IoUring;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.tiers.codec.BlockCodec;
import io.kvtier.tiers.transfer.Buffers;
import io.kvtier.tiers.transfer.Joining;
import io.kvtier.tiers.transfer.LastLeg;
import io.kvtier.tiers.transfer.QueuedPipeline;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TransferQueues;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Stores and loads blocks through one io_uring on one thread. Bytes go straight between the slab
 * and the file, a block's header and body in one vectored operation. With a codec, each write has a
 * buffer of the pipeline.
 *
 * <p>Reads and writes have bounds of their own on the operations and bytes that the device has at a
 * time. So a read waits for few writes, and an urgent read for few other reads. While the device
 * works, the thread makes and checks checksums, some at a time, and looks at the queues and at the
 * device in between. With nothing to do it sleeps in the kernel, where a read of its doorbell is
 * pending.
 */
public final class UringPipeline extends QueuedPipeline {
  // Enough to keep a fast device busy. A deeper queue only makes every transfer wait longer.
  private static final int READS_MAX = 32;
  private static final long READ_BYTES_MAX = 16 << 20;
  private static final int WRITES_MAX = 16;
  private static final long WRITE_BYTES_MAX = 16 << 20;

  /** Reads that wait to be checked while the device does the next ones. */
  private static final int ARRIVED_MAX = 32;

  /** Writes that are checked and sealed while the device is busy with the ones before. */
  private static final int SEALED_MAX = 4;

  /** The bytes of checksums that are made before the thread looks at the device again. */
  private static final long CHECKSUM_BYTES = 256 << 10;

  private static final int OPERATIONS = READS_MAX + ARRIVED_MAX + WRITES_MAX + SEALED_MAX;
  private static final long BELL = -1;
  private static final int ONLY_WORKER = 0;

  private final Consumer<Throwable> defect;
  private final TroubleLog troubles;
  private final Arena arena = Arena.ofShared();
  private final EventFd bell;
  private final MemorySegment bellWord = arena.allocate(Long.BYTES, Long.BYTES);
  private final IoUring ring;
  private final TransferQueues queues;
  private final Thread thread;
  private volatile boolean running = true;

  // From here on the thread's own.
  private final UringOperation[] operations = new UringOperation[OPERATIONS];
  private final ArrayDeque<UringOperation> free = new ArrayDeque<>(OPERATIONS);
  private final ArrayDeque<UringOperation> arrived = new ArrayDeque<>(OPERATIONS);
  private final ArrayDeque<UringOperation> sealed = new ArrayDeque<>(SEALED_MAX);

  /** Reads whose bytes did not verify in their slab: each is read again, aside, one at a time. */
  private final ArrayDeque<UringOperation> suspects = new ArrayDeque<>(OPERATIONS);

  private MemorySegment aside = MemorySegment.NULL;
  private boolean asideIsTaken;
  private final InHand reads = new InHand(READS_MAX, READ_BYTES_MAX);
  private final InHand writes = new InHand(WRITES_MAX, WRITE_BYTES_MAX);
  private final BlockCodec codec;
  private final Buffers decoding = new Buffers();
  private final ArrayDeque<EncodeBuffer> buffers = new ArrayDeque<>();
  private final IoUring.CompletionSink completions = this::onCompletion;
  private boolean bellIsRead;
  private boolean unrung;
  private int bellResult;

  /** The operations that the device has. The last one may exceed the bound on bytes. */
  private static final class InHand {
    private final int operationsMax;
    private final long bytesMax;
    private int operations;
    private long bytes;

    InHand(int operationsMax, long bytesMax) {
      this.operationsMax = operationsMax;
      this.bytesMax = bytesMax;
    }

    boolean hasRoom() {
      return operations < operationsMax && bytes < bytesMax;
    }

    void add(int count, long operationBytes) {
      operations += count;
      bytes += operationBytes;
    }
  }

  /**
   * Starts the thread.
   *
   * @param depth the most transfers in flight
   * @param device its files are registered; it is closed after this
   * @param codec what stores are written with; loads go by what stands in the slot
   * @param lastLeg where stores go on to, or null when writing is all
   * @param listeners told of a defect when the ring is broken: its transfers will not come back
   * @throws IOException with a reason in words when there can be no ring
   */
  public UringPipeline(
      String name,
      int depth,
      FileDevice device,
      BlockCodec codec,
      @Nullable LastLeg lastLeg,
      SsdListeners listeners)
      throws IOException {
    defect = listeners.defect();
    troubles = listeners.troubles();
    this.codec = codec;
    for (int i = 0; i < OPERATIONS; i++) {
      MemorySegment header =
          arena.allocate(SlotHeaderDescriptor.HEADER_BYTES, SharedMemory.PAGE_BYTES);
      MemorySegment vector = arena.allocate(UringOperation.VECTOR_BYTES, Long.BYTES);
      operations[i] = new UringOperation(i, header, vector);
      free.add(operations[i]);
    }
    IoUring made = null;
    EventFd madeBell = null;
    try {
      madeBell = EventFd.createForRing();
      made = IoUring.create(READS_MAX + WRITES_MAX + 1);
      made.registerFiles(device.descriptors());
    } catch (IOException e) {
      if (made != null) {
        made.close();
      }
      if (madeBell != null) {
        madeBell.close();
      }
      arena.close();
      throw e;
    }
    ring = made;
    bell = madeBell;
    queues = new TransferQueues(depth, 1, _ -> bell.ring(), lastLeg, listeners.finishedBell());
    thread = Thread.ofPlatform().daemon().name(name).start(this::work);
  }

  @Override
  protected TransferQueues queues() {
    return queues;
  }

  private void work() {
    try {
      ring.enable();
      readBell();
      while (running || bellIsRead || reads.operations + writes.operations > 0) {
        serve();
      }
      while (!arrived.isEmpty()) {
        checkArrived();
      }
      ringFinished();
    } catch (Throwable t) {
      defect.accept(t);
    }
  }

  private void serve() throws IOException {
    boolean found = begin();
    if (found || !arrived.isEmpty()) {
      ring.submit(0);
    } else {
      sleep();
    }
    reap();
    if (!arrived.isEmpty()) {
      // The device goes on while the thread checks what it brought.
      boolean begun = beginReads();
      if (enterSealed() || begun) {
        ring.submit(0);
      }
      checkArrived();
    }
    ringFinished();
  }

  /** Sleeps until the device has done something or the doorbell rings. */
  private void sleep() throws IOException {
    queues.announceIdle(ONLY_WORKER);
    ring.submit(begin() ? 0 : 1);
    queues.retractIdle(ONLY_WORKER);
  }

  /** Whether anything was taken from the queues: they may hold more. */
  private boolean begin() {
    if (!running) {
      return false;
    }
    boolean begunReads = beginReads();
    return beginWrites() || begunReads;
  }

  private boolean beginReads() {
    boolean any = beginSuspect();
    while (running
        && reads.hasRoom()
        && reads.operations + arrived.size() + suspects.size() < READS_MAX + ARRIVED_MAX) {
      Transfer transfer = queues.pollUrgent();
      if (transfer == null) {
        break;
      }
      any = true;
      UringOperation operation = free.remove();
      operation.begin(transfer);
      reads.add(1, operation.bytes());
      operation.enter(ring);
    }
    return any;
  }

  private boolean beginSuspect() {
    if (!running || asideIsTaken || suspects.isEmpty() || !reads.hasRoom()) {
      return false;
    }
    UringOperation operation = suspects.remove();
    asideIsTaken = true;
    operation.beginAside(aside(operation.transfer().slotBytes));
    reads.add(1, operation.bytes());
    operation.enter(ring);
    return true;
  }

  private MemorySegment aside(int bytes) {
    if (aside.byteSize() < bytes) {
      aside = Arena.ofAuto().allocate(bytes, SharedMemory.PAGE_BYTES);
    }
    return aside.asSlice(0, bytes);
  }

  private boolean beginWrites() {
    boolean _ = enterSealed();
    boolean any = false;
    long summed = 0;
    while (summed < CHECKSUM_BYTES && sealed.size() < SEALED_MAX) {
      Transfer transfer = queues.pollStore();
      if (transfer == null) {
        break;
      }
      any = true;
      summed += transfer.length;
      UringOperation operation = free.remove();
      operation.begin(transfer);
      transfer.status = seal(operation);
      if (transfer.status == Status.OK) {
        sealed.add(operation);
        boolean _ = enterSealed();
      } else {
        finish(operation);
      }
    }
    return any;
  }

  private Status seal(UringOperation operation) {
    Transfer transfer = operation.transfer();
    if (codec.id() == 0) {
      return StoredBlock.seal(transfer, operation.header());
    }
    EncodeBuffer free = buffers.poll();
    EncodeBuffer buffer = free == null ? new EncodeBuffer(codec) : free;
    StoredBlock.Sealed sealed = StoredBlock.seal(transfer, operation.header(), buffer);
    if (sealed == StoredBlock.Sealed.ENCODED) {
      operation.encoded(buffer);
    } else {
      buffers.push(buffer);
    }
    return sealed == StoredBlock.Sealed.CORRUPT ? Status.CORRUPT : Status.OK;
  }

  private boolean enterSealed() {
    boolean any = false;
    while (running && writes.hasRoom() && !sealed.isEmpty()) {
      UringOperation operation = sealed.remove();
      any = true;
      writes.add(1, operation.bytes());
      operation.enter(ring);
    }
    return any;
  }

  private void reap() throws IOException {
    int _ = ring.reap(completions);
    if (bellResult < 0) {
      throw new IOException("the read of a doorbell failed: " + Errno.describe(-bellResult));
    }
    if (!bellIsRead && running) {
      readBell();
    }
  }

  private void readBell() {
    ring.read(bell.descriptor(), bellWord, BELL);
    bellIsRead = true;
  }

  private void onCompletion(long tag, int result) {
    boolean again = result == -Errno.EINTR || result == -Errno.EAGAIN;
    if (tag == BELL) {
      bellIsRead = false;
      bellResult = again ? 0 : result;
      return;
    }
    UringOperation operation = operations[(int) tag];
    if (again || (result > 0 && operation.advance(result))) {
      operation.enter(ring);
      return;
    }
    Transfer transfer = operation.transfer();
    boolean store = transfer.kind == Transfer.Kind.STORE;
    (store ? writes : reads).add(-1, -operation.bytes());
    if (result <= 0) {
      // Nothing moved: an error, or the file ends there.
      StoredBlock.failed(
          transfer,
          FileDevice.place(transfer)
              + ": "
              + (result < 0 ? Errno.describe(-result) : "the file ends there"),
          troubles);
      finish(operation);
    } else if (store) {
      finish(operation);
    } else {
      arrived.add(operation);
    }
  }

  private void checkArrived() {
    long summed = 0;
    while (summed < CHECKSUM_BYTES && !arrived.isEmpty()) {
      UringOperation operation = arrived.remove();
      Transfer transfer = operation.transfer();
      summed += transfer.length;
      MemorySegment readAside = operation.aside();
      transfer.status =
          readAside == null
              ? StoredBlock.check(transfer, operation.header(), decoding)
              : StoredBlock.checkAside(transfer, operation.header(), readAside, decoding);
      if (transfer.status == Status.CORRUPT && readAside == null) {
        suspects.add(operation);
        continue;
      }
      if (transfer.status == Status.CORRUPT) {
        StoredBlock.tellDamaged(transfer, troubles);
      }
      finish(operation);
    }
  }

  private void finish(UringOperation operation) {
    EncodeBuffer buffer = operation.takeBuffer();
    if (buffer != null) {
      buffers.push(buffer);
    }
    asideIsTaken &= operation.aside() == null;
    Transfer transfer = operation.end();
    free.push(operation);
    unrung |= queues.finish(transfer);
  }

  /** One ring for all that ended since the last. */
  private void ringFinished() {
    if (unrung) {
      unrung = false;
      queues.ringFinished();
    }
  }

  /** Waits for what the device has in hand; what was not begun is left. */
  @Override
  public void close() {
    running = false;
    bell.ring();
    // The device still writes to slabs that are unmapped next.
    Joining.join(thread);
    ring.close();
    bell.close();
    arena.close();
  }
}
