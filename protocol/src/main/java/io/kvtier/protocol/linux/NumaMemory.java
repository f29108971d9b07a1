package io.kvtier.protocol.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.BitSet;

/**
 * The NUMA nodes that the kernel takes pages of mappings from. A policy of a memory file is the
 * file's: it also holds for pages that other processes touch first. A seccomp filter may refuse
 * each call; containers often have such a filter.
 */
public final class NumaMemory {
  private static final long SYS_MBIND = Machine.current().mbindCall();
  private static final long SYS_GET_MEMPOLICY = Machine.current().getMempolicyCall();
  private static final long SYS_MOVE_PAGES = Machine.current().movePagesCall();

  // The C library has no functions for them. Few processes need them: Libc is of all.
  private static final MethodHandle MBIND =
      Libc.systemCall(
          FunctionDescriptor.of(
              JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG,
              JAVA_LONG));
  private static final MethodHandle GET_MEMPOLICY =
      Libc.systemCall(
          FunctionDescriptor.of(
              JAVA_LONG, JAVA_LONG, ADDRESS, ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG));
  private static final MethodHandle MOVE_PAGES =
      Libc.systemCall(
          FunctionDescriptor.of(
              JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG));

  // linux/mempolicy.h
  private static final int MPOL_PREFERRED = 1;
  private static final int MPOL_BIND = 2;

  /** One more than the highest number of a NUMA node, in every kernel. */
  private static final int NODES_MAX = 1024;

  private NumaMemory() {}

  /**
   * Has pages that are taken from now on come from one NUMA node, and from others only if that node
   * has none left. Pages that are there stay.
   */
  public static void prefer(MemorySegment mapping, int node) throws IOException {
    setPolicy(mapping, MPOL_PREFERRED, node);
  }

  /**
   * Has pages that are taken from now on come from one NUMA node only. If the node has none left
   * and cannot free any, the kernel kills a process that has memory there. Pages that are there
   * stay.
   */
  public static void bind(MemorySegment mapping, int node) throws IOException {
    setPolicy(mapping, MPOL_BIND, node);
  }

  private static void setPolicy(MemorySegment mapping, int policy, int node) throws IOException {
    if (node < 0 || node >= NODES_MAX) {
      throw new IllegalArgumentException("NUMA node " + node + " of " + NODES_MAX);
    }
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment mask = arena.allocate(JAVA_LONG, NODES_MAX / Long.SIZE);
      mask.setAtIndex(JAVA_LONG, node / Long.SIZE, 1L << node);
      long result =
          (long)
              MBIND.invokeExact(
                  Libc.capture(),
                  SYS_MBIND,
                  mapping.address(),
                  mapping.byteSize(),
                  (long) policy,
                  mask,
                  NODES_MAX + 1L,
                  0L);
      if (result < 0) {
        throw Libc.failure("mbind", mapping.byteSize() + " bytes, NUMA node " + node);
      }
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /**
   * The NUMA nodes that the policy of this thread names, as {@code numactl} sets it; empty where
   * the thread has the kernel's own policy, which takes pages where a thread runs.
   */
  public static BitSet nodesOfThread() throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment policy = arena.allocate(JAVA_INT);
      MemorySegment mask = arena.allocate(JAVA_LONG, NODES_MAX / Long.SIZE);
      long result =
          (long)
              GET_MEMPOLICY.invokeExact(
                  Libc.capture(), SYS_GET_MEMPOLICY, policy, mask, NODES_MAX + 1L, 0L, 0L);
      if (result < 0) {
        throw Libc.failure("get_mempolicy", "this thread");
      }
      return BitSet.valueOf(mask.toArray(JAVA_LONG));
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }

  /**
   * The NUMA node of a page at each step of a mapping, from its beginning; a negative number where
   * there is no page.
   *
   * @param stepBytes a multiple of the kernel's pages
   */
  public static int[] nodesOf(MemorySegment mapping, long stepBytes) throws IOException {
    int count = (int) Math.ceilDiv(mapping.byteSize(), stepBytes);
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment pages = arena.allocate(ADDRESS, count);
      MemorySegment nodes = arena.allocate(JAVA_INT, count);
      for (int i = 0; i < count; i++) {
        pages.setAtIndex(JAVA_LONG, i, mapping.address() + i * stepBytes);
      }
      // Without nodes to move pages to, the call moves nothing.
      long result =
          (long)
              MOVE_PAGES.invokeExact(
                  Libc.capture(),
                  SYS_MOVE_PAGES,
                  0L,
                  (long) count,
                  pages,
                  MemorySegment.NULL,
                  nodes,
                  0L);
      if (result < 0) {
        throw Libc.failure("move_pages", count + " pages");
      }
      return nodes.toArray(JAVA_INT);
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }
}
