package io.kvtier.tiers.host;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.kvtier.protocol.linux.NumaMemory;
import io.kvtier.protocol.linux.ThreadCpus;
import io.kvtier.tiers.numa.NumaCalls;
import io.kvtier.tiers.numa.NumaFiles;
import io.kvtier.tiers.numa.NumaGpu;
import io.kvtier.tiers.numa.NumaHomes;
import io.kvtier.tiers.numa.NumaNode;
import io.kvtier.tiers.numa.NumaPlan;
import io.kvtier.tiers.numa.NumaTopology;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Where the pages of slabs come from. */
class SlabHomesTest {
  private static final int SLABS = 4;
  private static final long SLAB_BYTES = 4 << 20;

  @TempDir private Path folder;

  /** Remembers the calls; pages are on a node that the test chooses. */
  private static final class FakeCalls implements NumaCalls {
    final List<String> calls = Collections.synchronizedList(new ArrayList<>());
    int pagesOn = 1;
    String refusal = "";

    @Override
    public void prefer(MemorySegment mapping, int node) throws IOException {
      call("prefer " + node);
    }

    @Override
    public void bind(MemorySegment mapping, int node) throws IOException {
      call("bind " + node);
    }

    private void call(String words) throws IOException {
      calls.add(words);
      if (!refusal.isEmpty()) {
        throw new IOException(refusal);
      }
    }

    @Override
    public int[] nodesOf(MemorySegment mapping, long stepBytes) throws IOException {
      if (!refusal.isEmpty()) {
        throw new IOException(refusal);
      }
      int[] nodes = new int[(int) Math.ceilDiv(mapping.byteSize(), stepBytes)];
      Arrays.fill(nodes, pagesOn);
      return nodes;
    }

    @Override
    public void setCpus(BitSet cpus) {
      calls.add("run on " + cpus);
    }
  }

  private static BitSet cpus(int cpu) {
    BitSet cpus = new BitSet();
    cpus.set(cpu);
    return cpus;
  }

  /** Nodes 0 and 1 with processors, each of 1 GiB, and node 2 without. */
  private static NumaTopology topology(boolean hasSecond) {
    return new NumaTopology(
        List.of(
            new NumaNode(0, cpus(0), true, 1 << 30, true),
            new NumaNode(1, cpus(1), hasSecond, 1 << 30, true),
            new NumaNode(2, new BitSet(), false, 1 << 30, true)),
        List.of(new NumaGpu("0000:1a:00.0", 0), new NumaGpu("0000:9a:00.0", 1)),
        Map.of(0, Map.of(), 1, Map.of(0, 20)));
  }

  private NumaHomes homes(boolean hasSecond, NumaCalls calls) {
    return new NumaHomes(
        NumaPlan.of(topology(hasSecond), SLABS, SLAB_BYTES),
        new NumaFiles(folder, folder, "self"),
        calls);
  }

  private void setFree(long mib) throws IOException {
    for (int node = 0; node < 2; node++) {
      Path file = folder.resolve("devices/system/node/node" + node + "/meminfo");
      Files.createDirectories(file.resolveSibling(""));
      Files.writeString(file, "Node " + node + " MemFree:   " + (mib << 10) + " kB\n");
    }
  }

  private static void takeAll(SlabStore slabs) throws IOException {
    for (int slab = 0; slab < SLABS; slab++) {
      slabs.takePages(slab);
    }
  }

  @Test
  void noHomes_nothingIsCalledNorReported() throws IOException {
    try (SlabStore slabs = new SlabStore(SLABS, SLAB_BYTES)) {
      takeAll(slabs);
      assertNull(slabs.homes().report(SLAB_BYTES));
      assertEquals(1, slabs.homes().count());
    }
  }

  @Test
  void nodesWithRoom_eachSlabIsBoundWhileItsPagesAreTaken_byAThreadThatIsNear() throws IOException {
    FakeCalls calls = new FakeCalls();
    setFree(512);
    try (SlabStore slabs = new SlabStore(SLABS, SLAB_BYTES, 0, null, homes(true, calls))) {
      assertEquals(List.of("prefer 0", "prefer 1", "prefer 0", "prefer 1"), calls.calls);
      calls.calls.clear();
      slabs.takePages(1);
      assertEquals(List.of("run on {1}", "bind 1", "prefer 1"), calls.calls);
      assertArrayEquals(new int[] {0, 1, 0, 1}, slabs.homes().homeOfSlab());
    }
  }

  @Test
  void nodesWithoutRoom_slabsAreNeverBound() throws IOException {
    FakeCalls calls = new FakeCalls();
    setFree(65);
    try (SlabStore slabs = new SlabStore(SLABS, SLAB_BYTES, 0, null, homes(true, calls))) {
      calls.calls.clear();
      takeAll(slabs);
      assertEquals(List.of("run on {0}", "run on {1}", "run on {0}", "run on {1}"), calls.calls);
    }
  }

  @Test
  void report_saysWhereTheMemoryIsMeantToBe_andWhereItIs() throws IOException {
    FakeCalls calls = new FakeCalls();
    try (SlabStore slabs = new SlabStore(SLABS, SLAB_BYTES, 0, null, homes(true, calls))) {
      slabs.takePages(0);
      calls.pagesOn = 2;
      slabs.takePages(1);
      NumaReport report = slabs.homes().report(SLAB_BYTES);
      assertNotNull(report);
      assertEquals(
          List.of(2 * SLAB_BYTES, 2 * SLAB_BYTES),
          report.nodes().stream().map(NumaReport.Node::slabBytes).toList());
      assertEquals(
          List.of(0L, SLAB_BYTES),
          report.nodes().stream().map(NumaReport.Node::takenBytes).toList());
      assertEquals(SLAB_BYTES, report.elsewhereBytes());
      assertEquals("", report.trouble());
    }
  }

  @Test
  void kernelThatRefuses_pagesAreTaken_andTheReportSaysWhy() throws IOException {
    FakeCalls calls = new FakeCalls();
    calls.refusal = "mbind failed: EPERM";
    setFree(512);
    try (SlabStore slabs = new SlabStore(SLABS, SLAB_BYTES, 0, null, homes(true, calls))) {
      takeAll(slabs);
      for (int slab = 0; slab < SLABS; slab++) {
        assertEquals(SLAB_BYTES / 1024, Smaps.kib(slabs.mapping(slab), "Rss"));
      }
      NumaReport report = slabs.homes().report(SLAB_BYTES);
      assertNotNull(report);
      assertEquals("mbind failed: EPERM", report.trouble());
      assertEquals(-1, report.nodes().getFirst().takenBytes());
      assertEquals(-1, report.elsewhereBytes());
    }
  }

  @Test
  void slabsOfAnEarlierDaemon_haveTheirHomesWhereTheirPagesAre() throws IOException {
    FakeCalls calls = new FakeCalls();
    Path notes = Files.createDirectory(folder.resolve("notes"));
    try (KeptMemory kept = new KeptMemory(notes, 5);
        SlabStore first = new SlabStore(SLABS, SLAB_BYTES, 0, kept, homes(true, calls))) {
      takeAll(first);
      assertArrayEquals(new int[] {0, 1, 0, 1}, first.homes().homeOfSlab());
    }
    calls.calls.clear();
    try (KeptMemory kept = new KeptMemory(notes, 5);
        SlabStore second = new SlabStore(SLABS, SLAB_BYTES, 0, kept, homes(true, calls))) {
      assertTrue(second.isAdopted());
      assertArrayEquals(new int[] {1, 1, 1, 1}, second.homes().homeOfSlab());
      assertEquals(List.of("prefer 0", "prefer 1"), calls.calls.subList(0, 2));
      assertEquals("prefer 1", calls.calls.getLast());
      NumaReport report = second.homes().report(SLAB_BYTES);
      assertNotNull(report);
      assertEquals(SLABS * SLAB_BYTES, report.nodes().get(1).slabBytes());
      kept.letGo();
    }
  }

  // ---- the calls of this machine, which has at least node 0

  @Test
  void thisMachine_slabsOfItsFirstNode_haveTheirPagesThere() throws Exception {
    requireCalls();
    setFree(512);
    BitSet all = ThreadCpus.get();
    BitSet[] during = new BitSet[1];
    Thread thread =
        new Thread(() -> {
          try (SlabStore slabs =
              new SlabStore(SLABS, SLAB_BYTES, 0, null, homes(false, NumaCalls.LINUX))) {
            assertEquals(1, slabs.homes().count());
            takeAll(slabs);
            during[0] = ThreadCpus.get();
            NumaReport report = slabs.homes().report(SLAB_BYTES);
            assertNotNull(report);
            assertEquals("", report.trouble());
            assertEquals(SLABS * SLAB_BYTES, report.nodes().getFirst().takenBytes());
            assertEquals(0, report.elsewhereBytes());
            for (int slab = 0; slab < SLABS; slab++) {
              for (int node : NumaMemory.nodesOf(slabs.mapping(slab), 4096)) {
                assertEquals(0, node);
              }
            }
          } catch (IOException e) {
            throw new IllegalStateException(e);
          }
        });
    Throwable[] failure = new Throwable[1];
    thread.setUncaughtExceptionHandler((_, e) -> failure[0] = e);
    thread.start();
    thread.join();
    assertNull(failure[0], () -> String.valueOf(failure[0]));
    assertEquals(cpus(0), during[0]);
    assertEquals(all, ThreadCpus.get());
  }

  @Test
  void thisMachine_nodeThatItLacks_isTrouble_andTheMemoryIsThere() throws IOException {
    requireCalls();
    assumeTrue(!Files.exists(Path.of("/sys/devices/system/node/node1")), "there is a node 1");
    try (SlabStore slabs =
        new SlabStore(SLABS, SLAB_BYTES, 0, null, homes(true, NumaCalls.LINUX))) {
      for (int slab = 0; slab < SLABS; slab++) {
        assertEquals((byte) 0, slabs.mapping(slab).get(java.lang.foreign.ValueLayout.JAVA_BYTE, 0));
      }
      NumaReport report = slabs.homes().report(SLAB_BYTES);
      assertNotNull(report);
      assertTrue(report.trouble().contains("NUMA node 1"), report.trouble());
    }
  }

  private static void requireCalls() {
    try {
      BitSet ignored = NumaMemory.nodesOfThread();
    } catch (IOException e) {
      assumeTrue(false, "the kernel or a seccomp filter refuses the calls: " + e.getMessage());
    }
  }
}
