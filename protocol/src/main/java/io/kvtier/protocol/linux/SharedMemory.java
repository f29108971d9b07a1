package io.kvtier.protocol.linux;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/**
 * Anonymous shared memory ({@code memfd_create}) and its mappings. Every memory file is sealed
 * against resizing, so that a peer can't turn a mapped page into a SIGBUS, and is closed to other
 * users.
 */
public final class SharedMemory {
  private static final int MFD_CLOEXEC = 1;
  private static final int MFD_ALLOW_SEALING = 2;
  private static final int F_ADD_SEALS = 1033;
  private static final int F_SEAL_SEAL = 1;
  private static final int F_SEAL_SHRINK = 2;
  private static final int F_SEAL_GROW = 4;
  private static final int SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  private static final int F_GET_SEALS = 1034;
  private static final int O_RDWR = 2;
  static final int PROT_READ = 1;
  static final int PROT_WRITE = 2;
  private static final int MAP_SHARED = 1;
  static final int MAP_PRIVATE = 2;
  private static final int MAP_FIXED = 0x10;
  static final int MAP_ANONYMOUS = 0x20;
  static final int MAP_NORESERVE = 0x4000;
  private static final int O_RDONLY = 0;
  private static final int O_CLOEXEC = 0x80000;
  private static final int OWNER_READ_WRITE = 0x180;
  private static final int MAP_POPULATE = 0x8000;
  private static final int MADV_HUGEPAGE = 14;
  private static final int MADV_POPULATE_WRITE = 23;
  private static final int MADV_COLLAPSE = 25;

  /** The bytes of a huge page, where the kernel's pages are the smallest. */
  public static final long HUGE_PAGE_BYTES = 2 << 20;

  /** The smallest page of memory, and the unit of layouts on disk. */
  public static final long PAGE_BYTES = 4096;

  private static final long KERNEL_PAGE_BYTES = kernelPageBytes();

  private SharedMemory() {}

  /**
   * The bytes of a page of this kernel, the unit of mappings: 4 KiB on x86-64; 4, 16 or 64 KiB on
   * 64-bit Arm.
   */
  public static long pageBytes() {
    return KERNEL_PAGE_BYTES;
  }

  private static long kernelPageBytes() {
    try {
      return (int) Libc.GETPAGESIZE.invokeExact();
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /**
   * Creates a memory file.
   *
   * @param bytes its size, a multiple of {@link #PAGE_BYTES}
   * @return its descriptor, which the caller closes
   */
  public static Descriptor create(String name, long bytes) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      int fd =
          (int)
              Libc.MEMFD_CREATE.invokeExact(
                  Libc.capture(), arena.allocateFrom(name), MFD_CLOEXEC | MFD_ALLOW_SEALING);
      if (fd < 0) {
        throw Libc.failure("memfd_create", name);
      }
      Descriptor descriptor = new Descriptor(fd);
      try {
        if ((int) Libc.FTRUNCATE.invokeExact(Libc.capture(), fd, bytes) < 0) {
          throw Libc.failure("ftruncate", name + ", " + bytes);
        }
        if ((int) Libc.FCHMOD.invokeExact(Libc.capture(), fd, OWNER_READ_WRITE) < 0) {
          throw Libc.failure("fchmod", name);
        }
        if ((int) Libc.FCNTL.invokeExact(Libc.capture(), fd, F_ADD_SEALS, SEALS) < 0) {
          throw Libc.failure("fcntl", name + ", F_ADD_SEALS");
        }
        return descriptor;
      } catch (IOException e) {
        descriptor.close();
        throw e;
      }
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /**
   * Takes the memory file's pages now, so that a full machine is an error here and not a fault
   * later, and enters them into the mapping.
   */
  public static void populate(Descriptor descriptor, MemorySegment mapping) throws IOException {
    long bytes = mapping.byteSize();
    try {
      int populated =
          (int)
              Libc.MADVISE.invokeExact(
                  Libc.capture(), mapping.address(), bytes, MADV_POPULATE_WRITE);
      if (populated < 0 && Libc.errno() == Errno.EINVAL) {
        // Linux before 5.14.
        populated =
            (int) Libc.FALLOCATE.invokeExact(Libc.capture(), descriptor.number(), 0, 0L, bytes);
      }
      if (populated < 0) {
        throw Libc.failure("madvise", "populate, " + bytes + " bytes of shared memory");
      }
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /** A second descriptor of the same memory that can be mapped for reading only. */
  public static Descriptor readOnly(Descriptor descriptor) throws IOException {
    return open(
        String.format(Locale.ROOT, "/proc/self/fd/%d", descriptor.number()), O_RDONLY | O_CLOEXEC);
  }

  /**
   * Opens a memory file that another process of this user holds.
   *
   * @param number its descriptor there
   * @param name what it was created as
   * @param bytes its size
   * @throws IOException when it is not such a file, or can be resized
   */
  public static Descriptor openOf(long processId, int number, String name, long bytes)
      throws IOException {
    Path path = Path.of("/proc/" + processId + "/fd/" + number);
    String target = Files.readSymbolicLink(path).toString();
    if (!target.equals("/memfd:" + name + " (deleted)")) {
      throw new IOException(path + " is " + target + ", expected the memory file " + name);
    }
    Descriptor descriptor = open(path.toString(), O_RDWR | O_CLOEXEC);
    try {
      int seals = (int) Libc.FCNTL.invokeExact(Libc.capture(), descriptor.number(), F_GET_SEALS, 0);
      long size = Files.size(path);
      if (size != bytes || (seals & SEALS) != SEALS) {
        throw new IOException(
            path
                + " has "
                + size
                + " bytes and seals "
                + seals
                + ", expected "
                + bytes
                + " and "
                + SEALS);
      }
      return descriptor;
    } catch (IOException e) {
      descriptor.close();
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  private static Descriptor open(String path, int flags) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      int fd = (int) Libc.OPEN.invokeExact(Libc.capture(), arena.allocateFrom(path), flags, 0);
      if (fd < 0) {
        throw Libc.failure("open", path);
      }
      return new Descriptor(fd);
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /** Maps a memory file; the mapping ends with the arena. */
  public static MemorySegment map(Descriptor descriptor, long bytes, boolean writable, Arena arena)
      throws IOException {
    return mapAligned(descriptor, bytes, writable, 0, arena);
  }

  /**
   * Maps a memory file whose pages are there already, and enters them all into the mapping: one
   * call instead of a fault for each page.
   */
  public static MemorySegment mapPopulated(
      Descriptor descriptor, long bytes, boolean writable, Arena arena) throws IOException {
    return mapAligned(descriptor, bytes, writable, MAP_POPULATE, arena);
  }

  /** Maps so that a huge page of the file is one of the mapping. */
  private static MemorySegment mapAligned(
      Descriptor descriptor, long bytes, boolean writable, int moreFlags, Arena arena)
      throws IOException {
    int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    return mapAligned(descriptor.number(), bytes, protection, MAP_SHARED | moreFlags, arena);
  }

  static MemorySegment mapAligned(int fd, long bytes, int protection, int flags, Arena arena)
      throws IOException {
    if (bytes < HUGE_PAGE_BYTES) {
      return own(mmap(0, bytes, protection, flags, fd, 0), bytes, arena);
    }
    long reserved = bytes + HUGE_PAGE_BYTES;
    long begin = mmap(0, reserved, 0, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    long address = (begin + HUGE_PAGE_BYTES - 1) & -HUGE_PAGE_BYTES;
    long mapped;
    try {
      mapped = mmap(address, bytes, protection, flags | MAP_FIXED, fd, 0);
    } catch (IOException e) {
      unmap(begin, reserved);
      throw e;
    }
    long pagesEnd = address + ((bytes + pageBytes() - 1) & -pageBytes());
    unmapUnlessEmpty(begin, address - begin);
    unmapUnlessEmpty(pagesEnd, begin + reserved - pagesEnd);
    return own(mapped, bytes, arena);
  }

  private static void unmapUnlessEmpty(long address, long bytes) {
    if (bytes > 0) {
      unmap(address, bytes);
    }
  }

  /**
   * Maps what a descriptor offers at an offset, as the rings of an io_uring; ends with the arena.
   */
  static MemorySegment mapAt(Descriptor descriptor, long offset, long bytes, Arena arena)
      throws IOException {
    int flags = MAP_SHARED | MAP_POPULATE;
    long address = mmap(0, bytes, PROT_READ | PROT_WRITE, flags, descriptor.number(), offset);
    return own(address, bytes, arena);
  }

  /**
   * Asks for transparent huge pages under a mapping; refused silently where the kernel has none.
   */
  public static void adviseHugePages(MemorySegment mapping) {
    try {
      int ignored =
          (int)
              Libc.MADVISE.invokeExact(
                  Libc.capture(), mapping.address(), mapping.byteSize(), MADV_HUGEPAGE);
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /**
   * Puts huge pages in the place of the small ones that are there, for all who map the memory.
   * Nothing else changes, also for those that use it just now.
   *
   * @param offset of the mapping, a multiple of {@link #HUGE_PAGE_BYTES}
   * @return false where the kernel has none to give, does not know how (before Linux 6.1), its huge
   *     pages are larger (those of pages of 64 KiB have 512 MiB), or some of the memory is in use
   *     by a device
   */
  public static boolean makeHuge(MemorySegment mapping, long offset, long bytes) {
    if (pageBytes() != PAGE_BYTES) {
      return false;
    }
    try {
      int collapsed =
          (int)
              Libc.MADVISE.invokeExact(
                  Libc.capture(), mapping.asSlice(offset, bytes).address(), bytes, MADV_COLLAPSE);
      return collapsed == 0;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /**
   * Maps a region whose two rings each appear twice in a row, so that a record that wraps around a
   * ring's end is still contiguous.
   *
   * <pre>
   *   file:     | header | ring A | ring B |
   *   mapping:  | header | ring A | ring A | ring B | ring B |
   * </pre>
   */
  public static MemorySegment mapMirrored(
      Descriptor descriptor, long headerBytes, long ringABytes, long ringBBytes, Arena arena)
      throws IOException {
    long total = headerBytes + 2 * ringABytes + 2 * ringBBytes;
    long base = mmap(0, total, 0, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MemorySegment mapping = own(base, total, arena);
    int protection = PROT_READ | PROT_WRITE;
    int flags = MAP_SHARED | MAP_FIXED;
    int fd = descriptor.number();
    long at = mmap(base, headerBytes, protection, flags, fd, 0) + headerBytes;
    for (int copy = 0; copy < 2; copy++) {
      at = mmap(at, ringABytes, protection, flags, fd, headerBytes) + ringABytes;
    }
    for (int copy = 0; copy < 2; copy++) {
      at = mmap(at, ringBBytes, protection, flags, fd, headerBytes + ringABytes) + ringBBytes;
    }
    return mapping;
  }

  @SuppressWarnings("restricted") // the segment is bounded by the mapping made just before
  private static MemorySegment own(long address, long bytes, Arena arena) {
    return MemorySegment.ofAddress(address).reinterpret(bytes, arena, s -> unmap(address, bytes));
  }

  private static long mmap(long address, long bytes, int protection, int flags, int fd, long offset)
      throws IOException {
    try {
      long mapped =
          (long)
              Libc.MMAP.invokeExact(Libc.capture(), address, bytes, protection, flags, fd, offset);
      if (mapped == -1) {
        throw Libc.failure("mmap", bytes + " bytes at offset " + offset + " of descriptor " + fd);
      }
      return mapped;
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  private static void unmap(long address, long bytes) {
    try {
      int ignored = (int) Libc.MUNMAP.invokeExact(Libc.capture(), address, bytes);
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }
}
