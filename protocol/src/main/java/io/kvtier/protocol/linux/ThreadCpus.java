package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.BitSet;

/** The processors that a thread may run on. Threads that it starts inherit them. */
public final class ThreadCpus {
  private static final MethodHandle SET =
      Libc.checked(
          "sched_setaffinity", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_LONG, ADDRESS));
  private static final MethodHandle GET =
      Libc.checked(
          "sched_getaffinity", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_LONG, ADDRESS));

  /** As many bits as the largest kernels have processors. */
  private static final int MASK_BYTES = 1024;

  private ThreadCpus() {}

  /**
   * The number of the processor on which the calling thread runs. It may run on another one a
   * moment later. Takes some nanoseconds.
   */
  public static int current() {
    try {
      return (int) Libc.SCHED_GETCPU.invokeExact();
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /**
   * Has the calling thread run on some processors only.
   *
   * @param cpus at least one that the process may use; the kernel leaves others out
   */
  public static void set(BitSet cpus) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment mask = arena.allocate(MASK_BYTES, Long.BYTES);
      byte[] bytes = cpus.toByteArray();
      MemorySegment.copy(bytes, 0, mask, JAVA_BYTE, 0, bytes.length);
      if ((int) SET.invokeExact(Libc.capture(), 0, (long) MASK_BYTES, mask) < 0) {
        throw Libc.failure("sched_setaffinity", "processors " + cpus);
      }
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /** The processors that the calling thread may run on. */
  public static BitSet get() throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment mask = arena.allocate(MASK_BYTES, Long.BYTES);
      if ((int) GET.invokeExact(Libc.capture(), 0, (long) MASK_BYTES, mask) < 0) {
        throw Libc.failure("sched_getaffinity", "this thread");
      }
      return BitSet.valueOf(mask.toArray(JAVA_BYTE));
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }
}
