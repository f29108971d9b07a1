package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;

/**
 * A preallocated file read and written past the page cache ({@code O_DIRECT}) where the file system
 * allows it. Addresses, lengths and offsets are multiples of {@link #ALIGNMENT_BYTES}. Safe for
 * several threads.
 */
public final class DirectFile implements AutoCloseable {
  public static final int ALIGNMENT_BYTES = 4096;

  private static final int O_RDWR = 2;
  private static final int O_CREAT = 0x40;
  private static final int O_DIRECT = Machine.current().openDirect();
  private static final int O_CLOEXEC = 0x80000;
  private static final int OWNER_READ_WRITE = 0x180;
  private static final int IOVEC_BYTES = 16;
  private static final ThreadLocal<MemorySegment> VECTOR =
      ThreadLocal.withInitial(() -> Arena.ofAuto().allocate(2 * IOVEC_BYTES, 8));

  private final Path path;
  private final Descriptor descriptor;
  private final boolean direct;

  private DirectFile(Path path, Descriptor descriptor, boolean direct) {
    this.path = path;
    this.descriptor = descriptor;
    this.direct = direct;
  }

  /**
   * Opens or creates a file and takes its space.
   *
   * @throws IOException with ENOSPC when the file system has not that much room
   */
  public static DirectFile open(Path path, long bytes) throws IOException {
    return open(path, bytes, true);
  }

  /** The same through the page cache, as {@link #open} does where the file system wants it so. */
  public static DirectFile openBuffered(Path path, long bytes) throws IOException {
    return open(path, bytes, false);
  }

  private static DirectFile open(Path path, long bytes, boolean tryDirect) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment name = arena.allocateFrom(path.toString());
      int flags = O_RDWR | O_CREAT | O_CLOEXEC;
      boolean direct = tryDirect;
      int firstFlags = tryDirect ? flags | O_DIRECT : flags;
      int fd = (int) Libc.OPEN.invokeExact(Libc.capture(), name, firstFlags, OWNER_READ_WRITE);
      if (fd < 0 && tryDirect && Libc.errno() == Errno.EINVAL) {
        direct = false;
        fd = (int) Libc.OPEN.invokeExact(Libc.capture(), name, flags, OWNER_READ_WRITE);
      }
      if (fd < 0) {
        throw Libc.failure("open", path.toString());
      }
      DirectFile file = new DirectFile(path, new Descriptor(fd), direct);
      int allocated = (int) Libc.FALLOCATE.invokeExact(Libc.capture(), fd, 0, 0L, bytes);
      if (allocated < 0 && Libc.errno() == Errno.EOPNOTSUPP) {
        allocated = (int) Libc.FTRUNCATE.invokeExact(Libc.capture(), fd, bytes);
      }
      if (allocated < 0) {
        ErrnoException failure = Libc.failure("fallocate", path + ", " + bytes + " bytes");
        file.close();
        throw failure;
      }
      return file;
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /** Whether the page cache is bypassed. */
  public boolean isDirect() {
    return direct;
  }

  /** The open file, which this object keeps owning. */
  public Descriptor descriptor() {
    return descriptor;
  }

  /** Writes a header and a body, one after the other, in one call. */
  public void write(long offset, MemorySegment header, MemorySegment body) throws IOException {
    transfer(true, offset, header, body);
  }

  /** Reads a header and a body that follow each other, in one call. */
  public void read(long offset, MemorySegment header, MemorySegment body) throws IOException {
    transfer(false, offset, header, body);
  }

  private void transfer(boolean write, long offset, MemorySegment header, MemorySegment body)
      throws IOException {
    long total = header.byteSize() + body.byteSize();
    MemorySegment vector = VECTOR.get();
    long done = 0;
    try {
      while (done < total) {
        int parts = 0;
        if (done < header.byteSize()) {
          parts = part(vector, parts, header, done);
          parts = part(vector, parts, body, 0);
        } else {
          parts = part(vector, parts, body, done - header.byteSize());
        }
        long moved =
            write
                ? (long)
                    Libc.PWRITEV.invokeExact(
                        Libc.capture(), descriptor.number(), vector, parts, offset + done)
                : (long)
                    Libc.PREADV.invokeExact(
                        Libc.capture(), descriptor.number(), vector, parts, offset + done);
        if (moved > 0) {
          done += moved;
        } else if (moved == 0) {
          throw new IOException(
              path
                  + " ends at offset "
                  + (offset + done)
                  + "; expected "
                  + total
                  + " bytes from "
                  + offset);
        } else if (Libc.errno() != Errno.EINTR) {
          throw Libc.failure(
              write ? "pwritev" : "preadv", path + ", " + total + " bytes at " + offset);
        }
      }
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  private static int part(MemorySegment vector, int index, MemorySegment segment, long from) {
    vector.set(JAVA_LONG, (long) index * IOVEC_BYTES, segment.address() + from);
    vector.set(JAVA_LONG, (long) index * IOVEC_BYTES + 8, segment.byteSize() - from);
    return index + 1;
  }

  /** Makes everything that was written durable against a loss of power. */
  public void sync() throws IOException {
    try {
      if ((int) Libc.FDATASYNC.invokeExact(Libc.capture(), descriptor.number()) < 0) {
        throw Libc.failure("fdatasync", String.valueOf(path));
      }
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  @Override
  public void close() {
    descriptor.close();
  }
}
