package io.kvtier.protocol.linux;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.BitSet;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The calls about NUMA nodes, on this machine, which has at least the NUMA node 0. */
class NumaMemoryTest {
  private static final long BYTES = 8L << 20;

  @BeforeAll
  static void requireTheCalls() {
    try {
      BitSet ignored = NumaMemory.nodesOfThread();
    } catch (IOException e) {
      assumeTrue(false, "the kernel or a seccomp filter refuses the calls: " + e.getMessage());
    }
  }

  @Test
  void bind_pagesComeFromThatNode() throws IOException {
    try (Arena arena = Arena.ofConfined();
        Descriptor file = SharedMemory.create("numa-test", BYTES)) {
      MemorySegment mapping = SharedMemory.map(file, BYTES, true, arena);

      NumaMemory.bind(mapping, 0);
      assertTrue(policy(mapping).startsWith("bind:0"), policy(mapping));
      SharedMemory.populate(file, mapping);

      assertArrayEquals(new int[(int) (BYTES / 65536)], NumaMemory.nodesOf(mapping, 65536));
    }
  }

  @Test
  void prefer_replacesThePolicy_pagesComeFromThatNode() throws IOException {
    try (Arena arena = Arena.ofConfined();
        Descriptor file = SharedMemory.create("numa-test", BYTES)) {
      MemorySegment mapping = SharedMemory.map(file, BYTES, true, arena);

      NumaMemory.bind(mapping, 0);
      NumaMemory.prefer(mapping, 0);
      assertTrue(policy(mapping).startsWith("prefer:0"), policy(mapping));
      mapping.fill((byte) 1);

      assertArrayEquals(new int[(int) (BYTES / 65536)], NumaMemory.nodesOf(mapping, 65536));
    }
  }

  @Test
  void policyIsTheFiles_aSecondMappingHasIt() throws IOException {
    try (Arena arena = Arena.ofConfined();
        Descriptor file = SharedMemory.create("numa-test", BYTES)) {
      NumaMemory.prefer(SharedMemory.map(file, BYTES, true, arena), 0);

      MemorySegment second = SharedMemory.map(file, BYTES, true, arena);

      assertTrue(policy(second).startsWith("prefer:0"), policy(second));
    }
  }

  @Test
  void nodesOf_noPageThere_isNegative() throws IOException {
    try (Arena arena = Arena.ofConfined();
        Descriptor file = SharedMemory.create("numa-test", BYTES)) {
      MemorySegment mapping = SharedMemory.map(file, BYTES, true, arena);

      int[] nodes = NumaMemory.nodesOf(mapping, 1 << 20);

      assertEquals(8, nodes.length);
      assertTrue(Arrays.stream(nodes).allMatch(node -> node < 0), Arrays.toString(nodes));
    }
  }

  @Test
  void nodeThatThisMachineLacks_isRefusedWithTheNumber() throws IOException {
    try (Arena arena = Arena.ofConfined();
        Descriptor file = SharedMemory.create("numa-test", BYTES)) {
      MemorySegment mapping = SharedMemory.map(file, BYTES, true, arena);

      ErrnoException refused =
          assertThrows(ErrnoException.class, () -> NumaMemory.bind(mapping, 1023));

      assertEquals(Errno.EINVAL, refused.errno());
      assertTrue(String.valueOf(refused.getMessage()).contains("NUMA node 1023"));
    }
  }

  @Test
  void nodesOfThread_withoutAPolicy_areNone() throws IOException {
    assertEquals(new BitSet(), NumaMemory.nodesOfThread());
  }

  @Test
  void threadCpus_setIsWhatGetReturns_otherThreadsKeepTheirs() throws Exception {
    BitSet before = ThreadCpus.get();
    assertEquals(Runtime.getRuntime().availableProcessors(), before.cardinality());
    int one = before.length() - 1;
    BitSet seen = new BitSet();
    Thread thread =
        new Thread(() -> {
          try {
            BitSet only = new BitSet();
            only.set(one);
            ThreadCpus.set(only);
            seen.or(ThreadCpus.get());
          } catch (IOException e) {
            throw new IllegalStateException(e);
          }
        });
    thread.start();
    thread.join();

    BitSet expected = new BitSet();
    expected.set(one);
    assertEquals(expected, seen);
    assertEquals(before, ThreadCpus.get());
  }

  @Test
  void threadCpus_noneThatThisMachineHas_isRefused() {
    BitSet far = new BitSet();
    far.set(8000);

    ErrnoException refused = assertThrows(ErrnoException.class, () -> ThreadCpus.set(far));

    assertEquals(Errno.EINVAL, refused.errno());
  }

  /** The kernel's own words for the policy of a mapping. */
  private static String policy(MemorySegment mapping) throws IOException {
    String address = Long.toHexString(mapping.address()) + " ";
    return Files.readAllLines(Path.of("/proc/self/numa_maps")).stream()
        .filter(line -> line.startsWith(address))
        .map(line -> line.substring(address.length()))
        .findFirst()
        .orElseThrow();
  }
}
