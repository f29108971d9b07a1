package io.kvtier.tiers.numa;

import io.kvtier.protocol.linux.NumaMemory;
import io.kvtier.protocol.linux.ThreadCpus;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.util.BitSet;

/** The kernel's calls about NUMA nodes, which tests replace. */
public interface NumaCalls {
  /** {@link NumaMemory#prefer}. */
  void prefer(MemorySegment mapping, int node) throws IOException;

  /** {@link NumaMemory#bind}. */
  void bind(MemorySegment mapping, int node) throws IOException;

  /** {@link NumaMemory#nodesOf}. */
  int[] nodesOf(MemorySegment mapping, long stepBytes) throws IOException;

  /** {@link ThreadCpus#set}. */
  void setCpus(BitSet cpus) throws IOException;

  /** The calls of Linux. */
  NumaCalls LINUX =
      new NumaCalls() {
        @Override
        public void prefer(MemorySegment mapping, int node) throws IOException {
          NumaMemory.prefer(mapping, node);
        }

        @Override
        public void bind(MemorySegment mapping, int node) throws IOException {
          NumaMemory.bind(mapping, node);
        }

        @Override
        public int[] nodesOf(MemorySegment mapping, long stepBytes) throws IOException {
          return NumaMemory.nodesOf(mapping, stepBytes);
        }

        @Override
        public void setCpus(BitSet cpus) throws IOException {
          ThreadCpus.set(cpus);
        }
      };
}
