package io.kvtier.protocol.linux;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * One io_uring ({@code io_uring(7)}): reads and writes are entered into a ring that is shared with
 * the kernel, submitted together, and their results read from a second ring.
 *
 * <p>Any one thread makes it and registers files; then the thread that calls {@link #enable} is the
 * only one that uses it. {@link #close} comes after that thread's last use, with nothing in flight.
 * The memory that entries name must stay mapped until their results are there.
 */
public final class IoUring implements AutoCloseable {
  /** What io_uring needs here, as far as this class uses it. */
  private static final byte[] OPERATIONS_NEEDED = {
    IoUringLayout.OP_READV, IoUringLayout.OP_WRITEV, IoUringLayout.OP_READ
  };

  private static final int FEATURES_NEEDED =
      IoUringLayout.FEATURE_SINGLE_MMAP | IoUringLayout.FEATURE_NODROP;

  /** From the best to what Linux 5.10 has. */
  private static final int[] SETUPS = {
    IoUringLayout.SETUP_SINGLE_ISSUER
        | IoUringLayout.SETUP_DEFER_TASKRUN
        | IoUringLayout.SETUP_SUBMIT_ALL
        | IoUringLayout.SETUP_R_DISABLED,
    IoUringLayout.SETUP_R_DISABLED
  };

  private static final int PROBE_ENTRIES = 2;
  private static final Path DISABLED = Path.of("/proc/sys/kernel/io_uring_disabled");

  /**
   * Whether io_uring can be used, and the reason in words where it can't.
   *
   * @param reason empty where it can
   */
  public record Availability(boolean isUsable, String reason) {}

  /** Told of each result. */
  @FunctionalInterface
  public interface CompletionSink {
    /**
     * One entry is done.
     *
     * @param tag that of the entry
     * @param result bytes moved, or a negated errno
     */
    void onCompletion(long tag, int result);
  }

  private final Descriptor descriptor;
  private final Arena arena = Arena.ofShared();
  private final MemorySegment rings;
  private final MemorySegment entries;
  private final int capacity;
  private final int sqHeadAt;
  private final int sqTailAt;
  private final int sqMask;
  private final int cqHeadAt;
  private final int cqTailAt;
  private final int cqMask;
  private final int cqEntriesAt;
  private int tail;
  private int head;

  private IoUring(Descriptor descriptor, MemorySegment params) throws IOException {
    this.descriptor = descriptor;
    capacity = Words.getInt(params, IoUringLayout.PARAMS_SQ_ENTRIES);
    int completions = Words.getInt(params, IoUringLayout.PARAMS_CQ_ENTRIES);
    sqHeadAt = Words.getInt(params, IoUringLayout.PARAMS_SQ_HEAD);
    sqTailAt = Words.getInt(params, IoUringLayout.PARAMS_SQ_TAIL);
    cqHeadAt = Words.getInt(params, IoUringLayout.PARAMS_CQ_HEAD);
    cqTailAt = Words.getInt(params, IoUringLayout.PARAMS_CQ_TAIL);
    cqEntriesAt = Words.getInt(params, IoUringLayout.PARAMS_CQ_ENTRIES_AT);
    int arrayAt = Words.getInt(params, IoUringLayout.PARAMS_SQ_ARRAY);
    long ringBytes =
        Math.max(
            arrayAt + (long) capacity * Integer.BYTES,
            cqEntriesAt + (long) completions * IoUringLayout.CQE_BYTES);
    try {
      rings = SharedMemory.mapAt(descriptor, IoUringLayout.RINGS_AT, ringBytes, arena);
      entries =
          SharedMemory.mapAt(
              descriptor,
              IoUringLayout.ENTRIES_AT,
              (long) capacity * IoUringLayout.SQE_BYTES,
              arena);
    } catch (IOException e) {
      arena.close();
      throw e;
    }
    sqMask = Words.getInt(rings, Words.getInt(params, IoUringLayout.PARAMS_SQ_MASK));
    cqMask = Words.getInt(rings, Words.getInt(params, IoUringLayout.PARAMS_CQ_MASK));
    // The array maps ring positions to entries; they stay the same.
    for (int i = 0; i < capacity; i++) {
      Words.putInt(rings, arrayAt + (long) i * Integer.BYTES, i);
    }
    tail = Words.getInt(rings, sqTailAt);
    head = Words.getInt(rings, cqHeadAt);
  }

  /**
   * Makes a ring, disabled until {@link #enable}.
   *
   * @param entries the most that is submitted together; results find room for twice as many
   * @throws IOException with the errno's name and what to do
   */
  public static IoUring create(int entries) throws IOException {
    try (Arena local = Arena.ofConfined()) {
      MemorySegment params = local.allocate(IoUringLayout.PARAMS_BYTES, Long.BYTES);
      Descriptor descriptor = setUp(entries, params);
      try {
        int features = Words.getInt(params, IoUringLayout.PARAMS_FEATURES);
        if ((features & FEATURES_NEEDED) != FEATURES_NEEDED) {
          throw new IOException(
              "this kernel's io_uring is too old (features 0x"
                  + Integer.toHexString(features)
                  + "); Linux 5.10 or newer is needed");
        }
        return new IoUring(descriptor, params);
      } catch (IOException | RuntimeException e) {
        descriptor.close();
        throw e;
      }
    }
  }

  private static Descriptor setUp(int entries, MemorySegment params) throws IOException {
    int errno = Errno.EINVAL;
    for (int i = 0; i < SETUPS.length && errno == Errno.EINVAL; i++) {
      var _ = params.fill((byte) 0);
      Words.putInt(params, IoUringLayout.PARAMS_FLAGS, SETUPS[i]);
      try {
        long fd =
            (long)
                Libc.IO_URING_SETUP.invokeExact(
                    Libc.capture(), IoUringLayout.SETUP_CALL, entries, params);
        if (fd >= 0) {
          return new Descriptor((int) fd);
        }
      } catch (Throwable t) {
        throw Libc.defect(t);
      }
      errno = Libc.errno();
    }
    throw new ErrnoException(
        "io_uring_setup", errno, entries + " entries; " + advice(errno, disabledSetting()));
  }

  /** What a refused set-up means, and what to do. */
  static String advice(int errno, String disabledSetting) {
    return switch (errno) {
      case Errno.ENOSYS ->
          "the kernel has no io_uring, or a container's seccomp filter hides it:"
              + " use Linux 5.10 or newer, or allow io_uring_setup, io_uring_enter and"
              + " io_uring_register in the filter";
      case Errno.EPERM, Errno.EACCES ->
          disabledSetting.isEmpty() || disabledSetting.equals("0")
              ? "a seccomp filter or security module forbids it (containers do so by default):"
                  + " allow io_uring_setup, io_uring_enter and io_uring_register"
              : "kernel.io_uring_disabled is "
                  + disabledSetting
                  + ": set it to 0 (sysctl kernel.io_uring_disabled=0)"
                  + (disabledSetting.equals("1")
                      ? ", or run as a member of kernel.io_uring_group"
                      : "");
      case Errno.ENOMEM ->
          "not enough memory that may be locked: raise the limit (ulimit -l, LimitMEMLOCK=)";
      case Errno.EMFILE -> "raise the limit of open files (ulimit -n, LimitNOFILE=)";
      case Errno.EINVAL ->
          "these are too many entries, or this kernel's io_uring is too old: use Linux 5.10 or newer";
      default -> "see io_uring_setup(2)";
    };
  }

  private static String disabledSetting() {
    try {
      return Files.readString(DISABLED).strip();
    } catch (IOException | UncheckedIOException e) {
      // Before Linux 6.6 there is no such setting.
      return "";
    }
  }

  /** Tries a small ring and its operations. */
  public static Availability probe() {
    try (IoUring ring = create(PROBE_ENTRIES)) {
      String missing = ring.missingOperations();
      return missing.isEmpty()
          ? new Availability(true, "")
          : new Availability(
              false, "this kernel's io_uring lacks " + missing + ": use Linux 5.10 or newer");
    } catch (IOException e) {
      return new Availability(false, String.valueOf(e.getMessage()));
    }
  }

  private String missingOperations() throws IOException {
    try (Arena local = Arena.ofConfined()) {
      MemorySegment probe =
          local.allocate(
              IoUringLayout.PROBE_HEADER_BYTES
                  + (long) IoUringLayout.PROBE_ENTRIES * IoUringLayout.PROBE_ENTRY_BYTES,
              Long.BYTES);
      register(IoUringLayout.REGISTER_PROBE, probe, IoUringLayout.PROBE_ENTRIES, "probe");
      int known = Words.getByte(probe, IoUringLayout.PROBE_COUNT);
      StringBuilder missing = new StringBuilder();
      for (byte operation : OPERATIONS_NEEDED) {
        long at =
            IoUringLayout.PROBE_HEADER_BYTES + (long) operation * IoUringLayout.PROBE_ENTRY_BYTES;
        boolean supported =
            operation < known
                && (Words.getShort(probe, at + IoUringLayout.PROBE_FLAGS)
                        & IoUringLayout.PROBE_SUPPORTED)
                    != 0;
        if (!supported) {
          missing.append(missing.isEmpty() ? "" : ", ").append("operation ").append(operation);
        }
      }
      return missing.toString();
    }
  }

  /** The most entries that can wait for {@link #submit}. */
  public int capacity() {
    return capacity;
  }

  /** Hands files over; entries name them by their place in the list. The ring keeps them open. */
  public void registerFiles(List<Descriptor> files) throws IOException {
    if (files.isEmpty()) {
      return;
    }
    try (Arena local = Arena.ofConfined()) {
      MemorySegment numbers = local.allocate(ValueLayout.JAVA_INT, files.size());
      for (int i = 0; i < files.size(); i++) {
        int number = files.get(i).number();
        if (number < 0) {
          // The kernel would take -1 for a place that is filled later.
          throw new ErrnoException("io_uring_register", Errno.EBADF, "file " + i + " is closed");
        }
        Words.putInt(numbers, (long) i * Integer.BYTES, number);
      }
      register(IoUringLayout.REGISTER_FILES, numbers, files.size(), files.size() + " files");
    }
  }

  /** Makes the calling thread the one that uses the ring. */
  public void enable() throws IOException {
    register(IoUringLayout.REGISTER_ENABLE_RINGS, MemorySegment.NULL, 0, "enable");
  }

  private void register(int operation, MemorySegment argument, int count, String detail)
      throws IOException {
    try {
      long answer =
          (long)
              Libc.IO_URING_REGISTER.invokeExact(
                  Libc.capture(),
                  IoUringLayout.REGISTER_CALL,
                  descriptor.number(),
                  operation,
                  argument,
                  count);
      if (answer < 0) {
        throw new ErrnoException(
            "io_uring_register",
            Libc.errno(),
            Libc.errno() == Errno.ENOMEM ? detail + "; " + advice(Errno.ENOMEM, "") : detail);
      }
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /** How many entries can be made before {@link #submit} must be called. */
  public int room() {
    return capacity - unsubmitted();
  }

  /** Enters a read of a registered file into the parts of an iovec array. */
  public void readVector(int file, MemorySegment vector, int parts, long offset, long tag) {
    enter(IoUringLayout.OP_READV, true, file, vector.address(), parts, offset, tag);
  }

  /** Enters a write to a registered file of the parts of an iovec array. */
  public void writeVector(int file, MemorySegment vector, int parts, long offset, long tag) {
    enter(IoUringLayout.OP_WRITEV, true, file, vector.address(), parts, offset, tag);
  }

  /** Enters a read of a descriptor that is not registered, from where it stands. */
  public void read(Descriptor from, MemorySegment into, long tag) {
    enter(
        IoUringLayout.OP_READ,
        false,
        from.number(),
        into.address(),
        (int) into.byteSize(),
        -1,
        tag);
  }

  private void enter(
      byte operation, boolean fixed, int file, long address, int length, long offset, long tag) {
    if (room() == 0) {
      throw new IllegalStateException("the ring's " + capacity + " entries all wait for submit()");
    }
    long at = (long) (tail & sqMask) * IoUringLayout.SQE_BYTES;
    var _ = entries.asSlice(at, IoUringLayout.SQE_BYTES).fill((byte) 0);
    Words.putByte(entries, at + IoUringLayout.SQE_OPCODE, operation);
    Words.putByte(entries, at + IoUringLayout.SQE_FLAGS, fixed ? IoUringLayout.SQE_FIXED_FILE : 0);
    Words.putInt(entries, at + IoUringLayout.SQE_DESCRIPTOR, file);
    Words.putLong(entries, at + IoUringLayout.SQE_OFFSET, offset);
    Words.putLong(entries, at + IoUringLayout.SQE_ADDRESS, address);
    Words.putInt(entries, at + IoUringLayout.SQE_LENGTH, length);
    Words.putLong(entries, at + IoUringLayout.SQE_USER_DATA, tag);
    tail++;
    Words.putIntRelease(rings, sqTailAt, tail);
  }

  private int unsubmitted() {
    return tail - Words.getIntAcquire(rings, sqHeadAt);
  }

  /**
   * Submits what was entered and has results brought up to date.
   *
   * @param results sleep until that many are there; it may return with fewer
   * @throws IOException when the ring is broken
   */
  public void submit(int results) throws IOException {
    try {
      long answer =
          (long)
              Libc.IO_URING_ENTER.invokeExact(
                  Libc.capture(),
                  IoUringLayout.ENTER_CALL,
                  descriptor.number(),
                  unsubmitted(),
                  results,
                  IoUringLayout.ENTER_GETEVENTS,
                  MemorySegment.NULL,
                  0L);
      if (answer < 0) {
        int errno = Libc.errno();
        // All three pass: the caller reaps, and calls again.
        if (errno != Errno.EINTR && errno != Errno.EAGAIN && errno != Errno.EBUSY) {
          throw Libc.failure("io_uring_enter", unsubmitted() + " entries");
        }
      }
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /** Gives every result that is there; returns how many there were. */
  public int reap(CompletionSink sink) {
    int end = Words.getIntAcquire(rings, cqTailAt);
    int count = end - head;
    while (head != end) {
      long at = cqEntriesAt + (long) (head & cqMask) * IoUringLayout.CQE_BYTES;
      long tag = Words.getLong(rings, at + IoUringLayout.CQE_USER_DATA);
      int result = Words.getInt(rings, at + IoUringLayout.CQE_RESULT);
      head++;
      Words.putIntRelease(rings, cqHeadAt, head);
      sink.onCompletion(tag, result);
    }
    return count;
  }

  @Override
  public void close() {
    descriptor.close();
    arena.close();
  }
}
