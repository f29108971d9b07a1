package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * What a descriptor of unknown origin is. Every call here returns at once, whatever it is: a file
 * system that its sender runs is not asked.
 */
public final class DescriptorKind {
  private static final long STATX = Machine.current().statxCall();
  private static final int AT_EMPTY_PATH = 0x1000;
  private static final int AT_STATX_DONT_SYNC = 0x4000;
  private static final int STATX_TYPE = 1;
  // struct statx: u16 mode at 28, u32 major number of a device at 128.
  private static final int STATX_BYTES = 256;
  private static final int STATX_MODE_OFFSET = 28;
  private static final int STATX_DEVICE_OFFSET = 128;
  private static final int TYPE_MASK = 0170000;
  private static final int TYPE_CHARACTER_DEVICE = 0020000;
  private static final int TYPE_FILE = 0100000;
  // Only what the kernel made for itself has none, such as a dma-buf.
  private static final int TYPE_NONE = 0;
  private static final int F_GET_SEALS = 1034;
  // struct statfs, 64-bit: i64 type first.
  private static final int STATFS_BYTES = 120;
  private static final long DMA_BUF_MAGIC = 0x444d4142;

  private DescriptorKind() {}

  /**
   * Whether it is memory, of a device (a dma-buf, or what NVIDIA's driver exports) or of the kernel
   * (a memory file). Closing such a descriptor never waits for anybody.
   */
  public static boolean isMemory(Descriptor unknown) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment status = arena.allocate(STATX_BYTES, 8);
      long failed =
          (long)
              Libc.STATX.invokeExact(
                  Libc.capture(),
                  STATX,
                  unknown.number(),
                  arena.allocateFrom(""),
                  AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
                  STATX_TYPE,
                  status);
      if (failed < 0) {
        return false;
      }
      return switch (status.get(JAVA_SHORT, STATX_MODE_OFFSET) & TYPE_MASK) {
        case TYPE_CHARACTER_DEVICE -> isOfNvidia(status.get(JAVA_INT, STATX_DEVICE_OFFSET));
        case TYPE_FILE ->
            (int) Libc.FCNTL.invokeExact(Libc.capture(), unknown.number(), F_GET_SEALS, 0) >= 0;
        case TYPE_NONE -> {
          MemorySegment system = arena.allocate(STATFS_BYTES, 8);
          yield (int) Libc.FSTATFS.invokeExact(Libc.capture(), unknown.number(), system) == 0
              && system.get(JAVA_LONG, 0) == DMA_BUF_MAGIC;
        }
        default -> false;
      };
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  private static boolean isOfNvidia(int major) {
    try {
      for (String line : Files.readAllLines(Path.of("/proc/devices"))) {
        String[] words = line.strip().split(" ", -1);
        if (words.length == 2
            && words[1].startsWith("nvidia")
            && words[0].equals(String.valueOf(major))) {
          return true;
        }
      }
    } catch (IOException e) {
      // Nobody can say.
    }
    return false;
  }
}
