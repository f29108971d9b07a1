package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** The program that this process runs. */
public final class ProcessImage {
  private static final long CLOSE_RANGE = 436;
  private static final int FIRST_OF_OURS = 3;
  private static final int CLOSE_ON_EXEC = 4;

  private ProcessImage() {}

  /**
   * Starts this process's program anew in its place, with its arguments and its environment: the
   * number of the process, its standard streams and who waits for it stay, all else goes at once.
   * Whoever calls this has closed what needs closing.
   *
   * @param variable one more variable of the environment
   * @throws IOException when the program can't be started; it returns in no other way
   */
  public static void replace(String variable, String value) throws IOException {
    byte[] arguments = Files.readAllBytes(Path.of("/proc/self/cmdline"));
    Path program = Path.of("/proc/self/exe").toRealPath();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment path = arena.allocateFrom(program.toString());
      MemorySegment list = pointers(arena, arguments);
      ProcessEnvironment.set(variable, value, true);
      // A driver's descriptors would keep what the driver has of this process. Where the kernel has
      // no such call, nearly all close by themselves.
      long _ =
          (long)
              Libc.CLOSE_RANGE.invokeExact(
                  Libc.capture(), CLOSE_RANGE, FIRST_OF_OURS, -1, CLOSE_ON_EXEC);
      int _ = (int) Libc.EXECV.invokeExact(Libc.capture(), path, list);
      throw Libc.failure("execv", " of " + program);
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /** Strings that each end with a 0, as an array of pointers that ends with one. */
  private static MemorySegment pointers(Arena arena, byte[] strings) {
    String[] each = new String(strings, StandardCharsets.ISO_8859_1).split("\0", -1);
    // Behind the last 0 comes nothing.
    int count = each.length - 1;
    MemorySegment list = arena.allocate(ADDRESS, count + 1);
    for (int i = 0; i < count; i++) {
      list.setAtIndex(ADDRESS, i, arena.allocateFrom(each[i], StandardCharsets.ISO_8859_1));
    }
    list.setAtIndex(ADDRESS, count, MemorySegment.NULL);
    return list;
  }
}
