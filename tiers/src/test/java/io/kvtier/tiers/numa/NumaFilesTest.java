package io.kvtier.tiers.numa;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What the kernel's files say about NUMA nodes, in odd and usual forms. */
class NumaFilesTest {
  private static final long GIB = 1L << 30;

  @TempDir private Path folder;

  private static BitSet set(int... numbers) {
    BitSet set = new BitSet();
    for (int number : numbers) {
      set.set(number);
    }
    return set;
  }

  @Test
  void read_twoSockets_nodesProcessorsMemoryDistancesAndGpus() throws IOException {
    NumaTopology topology = FakeMachine.twoSockets(folder).read();

    assertEquals(
        List.of(
            new NumaNode(0, set(0, 1, 2, 3), true, 64 * GIB, true),
            new NumaNode(1, set(4, 5, 6, 7), true, 64 * GIB, true)),
        topology.nodes());
    assertEquals(
        List.of(
            new NumaGpu("0000:1a:00.0", 0),
            new NumaGpu("0000:1b:00.0", 0),
            new NumaGpu("0000:9a:00.0", 1),
            new NumaGpu("0000:9b:00.0", 1)),
        topology.gpus());
    assertEquals(Map.of(0, Map.of(0, 10, 1, 21), 1, Map.of(0, 21, 1, 10)), topology.distances());
    assertTrue(topology.hasChoice());
  }

  @Test
  void read_cpuset_leavesOutProcessorsAndMemory() throws IOException {
    NumaTopology topology = FakeMachine.twoSockets(folder).allowed("0,5-6", "1").read();

    assertEquals(set(0), topology.nodes().get(0).cpus());
    assertFalse(topology.nodes().get(0).mayHold());
    assertEquals(set(5, 6), topology.nodes().get(1).cpus());
    assertEquals(List.of(1), topology.slabNodes().stream().map(NumaNode::number).toList());
    assertFalse(topology.hasChoice());
  }

  @Test
  void read_nodesThatAnOperatorWants_areTheOnlyOnesForMemory() throws IOException {
    NumaTopology topology = FakeMachine.twoSockets(folder).files().read(set(1));

    assertEquals(List.of(1), topology.slabNodes().stream().map(NumaNode::number).toList());
  }

  @Test
  void read_nodeThatIsOffline_isNotThere() throws IOException {
    NumaTopology topology = FakeMachine.twoSockets(folder).online("0").read();

    assertEquals(1, topology.nodes().size());
  }

  @Test
  void read_nodesWithoutProcessorsOrMemory_areThere_butNotForSlabs() throws IOException {
    NumaTopology topology =
        new FakeMachine(folder)
            .online("0-2,8")
            .node(0, "0-71", 480, "10 80 80 40")
            .node(1, "", 96, "")
            .node(2, "72-75", 0, "")
            .node(8, "", 256, "")
            .allowed("0-75", "0-8")
            .read();

    assertEquals(List.of(0, 1, 2, 8), topology.nodes().stream().map(NumaNode::number).toList());
    assertEquals(List.of(0), topology.slabNodes().stream().map(NumaNode::number).toList());
    assertTrue(topology.hasChoice(), "the kernel could take memory from node 1 or 8");
  }

  @Test
  void read_gpuWhoseNodeIsNotKnown_isUnknown() throws IOException {
    NumaTopology topology =
        new FakeMachine(folder)
            .gpu("0000:1A:00.0", "-1")
            .gpu("0000:1b:00.0", "")
            .gpu("0000:1c:00.0", "node0")
            .read();

    assertEquals(
        List.of(
            new NumaGpu("0000:1a:00.0", NumaGpu.UNKNOWN),
            new NumaGpu("0000:1b:00.0", NumaGpu.UNKNOWN),
            new NumaGpu("0000:1c:00.0", NumaGpu.UNKNOWN)),
        topology.gpus());
  }

  @Test
  void read_noFilesAtAll_isNothing() {
    NumaTopology topology = new FakeMachine(folder.resolve("none")).read();

    assertEquals(List.of(), topology.nodes());
    assertFalse(topology.hasChoice());
  }

  @Test
  void read_noStatus_allowsEverything() throws IOException {
    FakeMachine machine = FakeMachine.twoSockets(folder);
    Files.delete(folder.resolve("proc/self/status"));

    assertEquals(2, machine.read().slabNodes().size());
  }

  @Test
  void freeBytes_arefreePagesAndFilesThatAreNotUsed() throws IOException {
    NumaFiles files = FakeMachine.twoSockets(folder).files();

    assertEquals(48 * GIB, files.freeBytes(1));
    assertEquals(-1, files.freeBytes(2));
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "0-", "3-1", "a", "0,,1", "-1", "0-99999999999", "0x1", "1 2"})
  void list_thatIsNone_isEmpty(String text) {
    assertEquals(new BitSet(), NumaFiles.list(text));
  }

  @Test
  void list_rangesAndNumbers() {
    assertEquals(set(0, 1, 2, 3, 8, 10, 11), NumaFiles.list("0-3,8,10-11\n"));
  }

  /** Whatever the files contain, there is a plan, and it names only nodes that are there. */
  @Test
  void randomContents_neverFail_andThePlanUsesNodesForSlabsOnly() throws IOException {
    String[] words = {
      "", "0", "0-3", "-1", "x", "0-1,3", "99999", "10 21", "Node 0 MemTotal: 7 kB"
    };
    for (int seed = 0; seed < 200; seed++) {
      SplittableRandom random = new SplittableRandom(seed);
      FakeMachine machine = FakeMachine.twoSockets(folder.resolve("seed-" + seed));
      for (String file :
          List.of(
              "sys/devices/system/node/online",
              "sys/devices/system/node/node0/cpulist",
              "sys/devices/system/node/node0/meminfo",
              "sys/devices/system/node/node1/meminfo",
              "sys/devices/system/node/node1/distance",
              "sys/bus/pci/devices/0000:1a:00.0/numa_node",
              "proc/self/status")) {
        if (random.nextInt(3) == 0) {
          var _ = machine.write(file, words[random.nextInt(words.length)] + "\n");
        }
      }
      NumaTopology topology = machine.read();
      NumaPlan plan = NumaPlan.of(topology, 16, 1 << 20);

      for (NumaPlan.Home home : plan.homes()) {
        NumaNode node = topology.node(home.node());
        assertTrue(node != null && node.canHoldSlabs(), "seed " + seed);
      }
      for (int slab = 0; slab < 16; slab++) {
        assertEquals(plan.isActive(), plan.ofSlab(slab) != NumaPlan.NONE, "seed " + seed);
      }
    }
  }

  @Test
  void thisMachine_isRead() {
    NumaTopology topology = new NumaFiles().read(new BitSet());

    assertTrue(topology.nodes().isEmpty() || !topology.slabNodes().isEmpty(), topology.toString());
  }
}
