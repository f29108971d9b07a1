package io.kvtier.policies.simulation;

import io.kvtier.policies.BitMixer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * Requests, each a list of blocks in prefix order, without a repeat in one request. Blocks are
 * numbered from 0 in order of their first appearance. All that is known of a block is what its
 * first request told: its depth and the block before it.
 */
public final class Trace {
  /** The number before a sequence's first block. */
  static final int NO_BLOCK = -1;

  private final int[] references;
  private final int[] starts;
  private final int[] parents;
  private final int[] depths;

  private Trace(int[] references, int[] starts, int[] parents, int[] depths) {
    this.references = references;
    this.starts = starts;
    this.parents = parents;
    this.depths = depths;
  }

  /** How many requests there are. */
  public int requests() {
    return starts.length - 1;
  }

  /** How many blocks they have together. */
  public int references() {
    return references.length;
  }

  /** How many different blocks. */
  public int distinct() {
    return parents.length;
  }

  /** Where a request's first reference is; {@code start(requests())} is the end. */
  int start(int request) {
    return starts[request];
  }

  /** The block of a reference. */
  int block(int reference) {
    return references[reference];
  }

  int depth(int block) {
    return depths[block];
  }

  /** The block before this one in its sequence, or {@link #NO_BLOCK}. */
  int parent(int block) {
    return parents[block];
  }

  /** 64 well-mixed bits for a block. Never 0. */
  static long fingerprint(int block) {
    return BitMixer.mix((block + 1) * 0x9E3779B97F4A7C15L);
  }

  /** Collects requests. */
  public static final class Builder {
    private final Map<Long, Integer> numbers = new HashMap<>();
    private int[] references = new int[1024];
    private int[] starts = new int[128];
    private int[] parents = new int[1024];
    private int[] depths = new int[1024];
    private int requests;
    private int size;
    private int known;

    /**
     * Adds a request.
     *
     * @param ids its blocks' ids in prefix order
     * @throws IllegalArgumentException when an id repeats
     */
    public void add(long[] ids) {
      if (requests + 2 > starts.length) {
        starts = Arrays.copyOf(starts, 2 * starts.length);
      }
      while (size + ids.length > references.length) {
        references = Arrays.copyOf(references, 2 * references.length);
      }
      int start = size;
      int previous = NO_BLOCK;
      for (int depth = 0; depth < ids.length; depth++) {
        int block = numbers.computeIfAbsent(ids[depth], id -> numbers.size());
        if (block == parents.length) {
          parents = Arrays.copyOf(parents, 2 * block);
          depths = Arrays.copyOf(depths, 2 * block);
        }
        if (numbers.size() > known) {
          known++;
          parents[block] = previous;
          depths[block] = depth;
        }
        references[start + depth] = block;
        previous = block;
      }
      requireNoRepeat(start, ids.length);
      size += ids.length;
      starts[++requests] = size;
    }

    private void requireNoRepeat(int start, int length) {
      int[] sorted = Arrays.copyOfRange(references, start, start + length);
      Arrays.sort(sorted);
      for (int i = 1; i < length; i++) {
        if (sorted[i] == sorted[i - 1]) {
          throw new IllegalArgumentException("a block is twice in one request");
        }
      }
    }

    /** The trace of all requests so far. */
    public Trace build() {
      return new Trace(
          Arrays.copyOf(references, size),
          Arrays.copyOf(starts, requests + 1),
          Arrays.copyOf(parents, known),
          Arrays.copyOf(depths, known));
    }
  }
}
