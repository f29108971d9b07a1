package io.kvtier.daemon.doctor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.KvtierdConfig.HostMemory;
import io.kvtier.daemon.doctor.Finding.Level;
import io.kvtier.tiers.numa.NumaCalls;
import io.kvtier.tiers.numa.NumaGpu;
import io.kvtier.tiers.numa.NumaNode;
import io.kvtier.tiers.numa.NumaTopology;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** What the doctor says about NUMA nodes. */
final class NumaChecksTest {
  private static final long GIB = 1L << 30;

  /** Takes or refuses every policy. */
  private record Calls(String refusal) implements NumaCalls {
    @Override
    public void prefer(MemorySegment mapping, int node) throws IOException {
      if (!refusal.isEmpty()) {
        throw new IOException(refusal);
      }
    }

    @Override
    public void bind(MemorySegment mapping, int node) {
      throw new AssertionError("the doctor binds nothing");
    }

    @Override
    public int[] nodesOf(MemorySegment mapping, long stepBytes) {
      return new int[0];
    }

    @Override
    public void setCpus(BitSet cpus) {
      throw new AssertionError("the doctor stays where it is");
    }
  }

  private static NumaNode node(int number, int cpus, long gib, boolean mayHold) {
    BitSet set = new BitSet();
    set.set(0, cpus);
    return new NumaNode(number, set, number < 8, gib * GIB, mayHold);
  }

  private static List<Finding> find(
      boolean usesNuma, String refusal, List<NumaNode> nodes, NumaGpu... gpus) {
    return new NumaChecks(
            new HostMemory(8 * GIB, GIB, false, usesNuma),
            new NumaTopology(
                nodes, List.of(gpus), Map.of(1, Map.of(0, 21, 1, 10), 0, Map.of(0, 10, 1, 21))),
            new Calls(refusal))
        .findings();
  }

  private static Finding last(List<Finding> findings, int count) {
    assertEquals(count, findings.size(), findings::toString);
    return findings.getLast();
  }

  @Test
  void oneNode_passesWithoutAWordMore() {
    Finding finding = last(find(true, "EPERM", List.of(node(0, 4, 64, true))), 1);
    assertEquals(Finding.pass("NUMA", "one NUMA node"), finding);
    assertEquals(Finding.pass("NUMA", "one NUMA node"), last(find(true, "", List.of()), 1));
  }

  @Test
  void off_isSaid() {
    List<NumaNode> nodes = List.of(node(0, 4, 64, true), node(1, 4, 64, true));
    assertEquals(
        Finding.pass("NUMA", "2 NUMA nodes; not wanted: host.numa is off"),
        last(find(false, "EPERM", nodes), 1));
  }

  @Test
  void severalNodes_whatIsMeantToBeWhere() {
    Finding finding =
        last(
            find(
                true,
                "",
                List.of(node(0, 4, 64, true), node(1, 4, 64, true), node(9, 0, 96, true)),
                new NumaGpu("0000:1a:00.0", 1),
                new NumaGpu("0000:1b:00.0", 0)),
            1);
    assertEquals(Level.PASS, finding.level());
    assertEquals(
        "NUMA node 0 is meant to have 4 GiB of host.bytes, near GPUs 0000:1b:00.0; NUMA node 1 is meant to"
            + " have 4 GiB of host.bytes, near GPUs 0000:1a:00.0; NUMA nodes without slabs: 9 (no"
            + " processors)",
        finding.what());
  }

  @Test
  void gpuOfANodeThatIsNotAllowed_isWarnedOf() {
    List<NumaNode> nodes = List.of(node(0, 4, 64, true), node(1, 4, 64, false));
    Finding finding = last(find(true, "", nodes, new NumaGpu("0000:1a:00.0", 1)), 2);
    assertEquals(Level.WARN, finding.level());
    assertTrue(finding.what().contains("GPU 0000:1a:00.0 is on NUMA node 1"), finding.what());
    assertTrue(finding.cure().contains("--cpuset-mems"), finding.cure());
  }

  @Test
  void gpuWhoseNodeIsNotKnown_isWarnedOf() {
    List<NumaNode> nodes = List.of(node(0, 4, 64, true), node(1, 4, 64, true));
    Finding finding = last(find(true, "", nodes, new NumaGpu("0000:1a:00.0", NumaGpu.UNKNOWN)), 2);
    assertEquals(Level.WARN, finding.level());
    assertTrue(finding.what().contains("GPU 0000:1a:00.0"), finding.what());
  }

  @Test
  void nodeWhoseProcessorsAreNotAllowed_isWarnedOf() {
    List<NumaNode> nodes = List.of(node(0, 4, 64, true), node(1, 0, 64, true));
    Finding finding = last(find(true, "", nodes), 2);
    assertEquals(Level.WARN, finding.level());
    assertTrue(finding.what().contains("no processor of NUMA node 1"), finding.what());
  }

  @Test
  void kernelThatRefuses_isWarnedOf_withTheCure() {
    List<NumaNode> nodes = List.of(node(0, 4, 64, true), node(1, 4, 64, true));
    Finding finding = last(find(true, "mbind failed: EPERM", nodes), 2);
    assertEquals(Level.WARN, finding.level());
    assertTrue(finding.what().contains("mbind failed: EPERM"), finding.what());
    assertTrue(finding.cure().contains("SYS_NICE"), finding.cure());
  }
}
