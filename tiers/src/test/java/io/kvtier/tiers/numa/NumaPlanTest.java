package io.kvtier.tiers.numa;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Which slabs and GPUs belong to which NUMA nodes. */
class NumaPlanTest {
  private static final long GIB = 1L << 30;

  @TempDir private Path folder;

  private static List<Integer> slabsOf(NumaPlan plan) {
    return plan.homes().stream().map(NumaPlan.Home::slabs).toList();
  }

  @Test
  void oneNode_hasNoHomes() throws IOException {
    NumaTopology topology =
        new FakeMachine(folder).node(0, "0-3", 64, "10").allowed("0-3", "0").read();

    NumaPlan plan = NumaPlan.of(topology, 8, GIB);

    assertFalse(plan.isActive());
    assertEquals(NumaPlan.NONE, plan.ofSlab(7));
    assertEquals(NumaPlan.NONE, plan.main());
  }

  @Test
  void severalNodesOfWhichOneIsAllowed_hasNoHomes() throws IOException {
    assertFalse(
        NumaPlan.of(FakeMachine.twoSockets(folder).allowed("0-7", "0").read(), 8, GIB).isActive());
  }

  @Test
  void oneNodeWithProcessors_andMemoryOfGpus_allSlabsAreBesideProcessors() throws IOException {
    NumaTopology topology =
        new FakeMachine(folder)
            .online("0-1")
            .node(0, "0-71", 480, "10 80")
            .node(1, "", 96, "80 10")
            .allowed("0-71", "0-1")
            .read();

    NumaPlan plan = NumaPlan.of(topology, 600, GIB);

    assertEquals(List.of(600), slabsOf(plan));
    assertEquals(0, plan.main());
  }

  @Test
  void noGpu_nodesHaveEquallyManySlabsInTurn() throws IOException {
    NumaTopology topology =
        new FakeMachine(folder)
            .node(0, "0-3", 64, "10 21")
            .node(1, "4-7", 64, "21 10")
            .allowed("0-7", "0-1")
            .read();

    NumaPlan plan = NumaPlan.of(topology, 8, GIB);

    assertEquals(List.of(4, 4), slabsOf(plan));
    for (int slab = 0; slab < 8; slab++) {
      assertEquals(slab % 2, plan.ofSlab(slab));
    }
  }

  @Test
  void gpus_nodesHaveSlabsByTheirNumber_andOthersNone() throws IOException {
    NumaTopology topology =
        new FakeMachine(folder)
            .node(0, "0-3", 64, "10 21 21")
            .node(1, "4-7", 64, "21 10 21")
            .node(2, "8-11", 64, "21 21 10")
            .gpu("0000:1a:00.0", "0")
            .gpu("0000:9a:00.0", "1")
            .gpu("0000:9b:00.0", "1")
            .gpu("0000:9c:00.0", "1")
            .allowed("0-11", "0-2")
            .read();

    NumaPlan plan = NumaPlan.of(topology, 16, GIB);

    assertEquals(List.of(4, 12, 0), slabsOf(plan));
    assertEquals(0, plan.ofGpu("0000:1A:00.0"));
    assertEquals(1, plan.ofGpu("0000:9c:00.0"));
    assertEquals(NumaPlan.NONE, plan.ofGpu("0000:ff:00.0"));
    assertEquals(1, plan.main());
  }

  @Test
  void nodeThatCantHaveItsShare_leavesTheRestToOthers() throws IOException {
    NumaTopology topology =
        new FakeMachine(folder)
            .node(0, "0-3", 64, "10 21")
            .node(1, "4-7", 64, "21 10")
            .gpu("0000:9a:00.0", "1")
            .allowed("0-7", "0-1")
            .read();

    assertEquals(List.of(0, 40), slabsOf(NumaPlan.of(topology, 40, GIB)));
    assertEquals(List.of(12, 48), slabsOf(NumaPlan.of(topology, 60, GIB)));
    assertEquals(List.of(52, 52), slabsOf(NumaPlan.of(topology, 104, GIB)), "more than fits");
  }

  @Test
  void gpuWhoseNodeHoldsNoSlabs_isNearTheNearestNodeThatDoes() throws IOException {
    NumaTopology topology =
        new FakeMachine(folder)
            .online("0-3")
            .node(0, "0-3", 64, "10 21 12 31")
            .node(1, "4-7", 64, "21 10 31 12")
            .node(2, "", 96, "12 31 10 40")
            .node(3, "8-9", 0, "31 12 40 10")
            .gpu("0000:1a:00.0", "2")
            .gpu("0000:9a:00.0", "3")
            .gpu("0000:9b:00.0", "-1")
            .allowed("0-9", "0-2")
            .read();

    NumaPlan plan = NumaPlan.of(topology, 16, GIB);

    assertEquals(0, plan.ofGpu("0000:1a:00.0"));
    assertEquals(1, plan.ofGpu("0000:9a:00.0"));
    assertEquals(NumaPlan.NONE, plan.ofGpu("0000:9b:00.0"));
    assertEquals(List.of(8, 8), slabsOf(plan));
  }

  /** Any machine: every slab has a home, shares are kept, and so they are in each stretch. */
  @Test
  void randomMachines_sharesHold_inEachStretchOfSlabs() {
    for (int seed = 0; seed < 500; seed++) {
      SplittableRandom random = new SplittableRandom(seed);
      int count = 2 + random.nextInt(7);
      List<NumaNode> nodes = new ArrayList<>();
      Map<Integer, Map<Integer, Integer>> distances = new HashMap<>();
      List<NumaGpu> gpus = new ArrayList<>();
      for (int node = 0; node < count; node++) {
        BitSet cpus = new BitSet();
        cpus.set(node);
        long memory = random.nextInt(5) == 0 ? 0 : (1L + random.nextInt(64)) * GIB;
        nodes.add(new NumaNode(node, cpus, random.nextInt(5) > 0, memory, random.nextInt(5) > 0));
        Map<Integer, Integer> row = new HashMap<>();
        for (int other = 0; other < count; other++) {
          row.put(other, other == node ? 10 : 20 + random.nextInt(20));
        }
        distances.put(node, row);
      }
      for (int gpu = random.nextInt(9); gpu > 0; gpu--) {
        gpus.add(new NumaGpu("gpu" + gpu, random.nextInt(count + 1) - 1));
      }
      int slabs = 1 + random.nextInt(400);
      String at = "seed " + seed;

      NumaPlan plan = NumaPlan.of(new NumaTopology(nodes, gpus, distances), slabs, GIB / 4);

      if (!plan.isActive()) {
        continue;
      }
      int homes = plan.homes().size();
      int[] given = new int[homes];
      for (int slab = 0; slab < slabs; slab++) {
        given[plan.ofSlab(slab)]++;
        for (int home = 0; home < homes; home++) {
          double share = (double) plan.homes().get(home).slabs() * (slab + 1) / slabs;
          assertTrue(Math.abs(given[home] - share) < homes, at + ", slab " + slab);
        }
      }
      for (int home = 0; home < homes; home++) {
        assertEquals(given[home], plan.homes().get(home).slabs(), at);
      }
      assertEquals(slabs, slabsOf(plan).stream().mapToInt(Integer::intValue).sum(), at);
      for (NumaGpu gpu : gpus) {
        int home = plan.ofGpu(gpu.pciId());
        assertEquals(gpu.node() < 0, home == NumaPlan.NONE, at);
        if (home != NumaPlan.NONE) {
          assertTrue(plan.homes().get(home).gpus().contains(gpu.pciId()), at);
        }
      }
    }
  }
}
