package io.kvtier.bench;

import io.kvtier.client.BatchResult;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Leases;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.client.ValueResult;
import io.kvtier.protocol.Status;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Gets and puts with a copy through the Java client, in batches. */
final class JavaCopies implements AutoCloseable {
  /** What {@link Keys} are made of here and in {@code worker.py}. */
  static final long GET_TAG = 1;

  static final long PUT_TAG = 2;

  /** Calls and bytes of some time. */
  record Rate(long calls, long bytes, long tookNs) {
    double gbps() {
      return bytes / (double) tookNs;
    }

    double perS() {
      return calls * 1e9 / tookNs;
    }
  }

  private final Arena arena = Arena.ofShared();
  private final KvtierClient client;
  private final WorkingSet set;
  private final Namespace gets;
  private final Namespace puts;
  private final List<Keys> getKeys = new ArrayList<>();
  private final MemorySegment putKeyBytes;
  private final Keys putKeys;
  private int next;
  private long nextPut;

  /** Puts the blocks that will be got into the daemon. */
  JavaCopies(KvtierClient client, int blockBytes, int blocks, int batch) {
    this.client = client;
    set = new WorkingSet(blockBytes, blocks, batch, arena);
    gets =
        client.namespace("bench-get-" + blockBytes, blockBytes, Map.of("purpose", "kvtier bench"));
    puts =
        client.namespace("bench-put-" + blockBytes, blockBytes, Map.of("purpose", "kvtier bench"));
    putKeyBytes = arena.allocate((long) batch * BenchKeys.KEY_BYTES, 8);
    putKeys = Keys.wrap(putKeyBytes, BenchKeys.KEY_BYTES);
    for (int index = 0; index < set.batches(); index++) {
      MemorySegment keys = arena.allocate((long) batch * BenchKeys.KEY_BYTES, 8);
      for (int i = 0; i < batch; i++) {
        BenchKeys.put(keys, (long) i * BenchKeys.KEY_BYTES, GET_TAG, set.number(index, i));
      }
      getKeys.add(Keys.wrap(keys, BenchKeys.KEY_BYTES));
      set.mark(index);
      requireComplete(client.blocking().put(gets, getKeys.get(index), set.batch(index)));
    }
    try (Leases leases = client.blocking().acquire(gets, getKeys.getFirst())) {
      if (leases.granted() != batch || leases.mustVerify(0)) {
        throw new IllegalStateException(
            "the daemon wants blocks verified that nobody else could write: another session"
                + " disturbs the benchmark");
      }
    }
  }

  Namespace gets() {
    return gets;
  }

  List<Keys> getKeys() {
    return getKeys;
  }

  /** Copies batches out for a while. */
  Rate get(long durationNs) {
    long calls = 0;
    long took = 0;
    while (took < durationNs) {
      int index = next;
      next = (next + 1) % set.batches();
      set.unmark(index);
      long started = System.nanoTime();
      BatchResult result = client.blocking().get(gets, getKeys.get(index), set.batch(index));
      took += System.nanoTime() - started;
      calls++;
      requireComplete(result);
      set.check(index);
    }
    return new Rate(calls, calls * set.batchBytes(), took);
  }

  /** Copies fresh blocks in for a while, but no more than the working set, and clears them. */
  Rate put(long durationNs) {
    long calls = 0;
    long took = 0;
    while (took < durationNs && calls < set.batches()) {
      for (int i = 0; i < set.batch(); i++) {
        BenchKeys.put(putKeyBytes, (long) i * BenchKeys.KEY_BYTES, PUT_TAG, nextPut++);
      }
      int index = (int) calls;
      long started = System.nanoTime();
      BatchResult result = client.blocking().put(puts, putKeys, set.batch(index));
      took += System.nanoTime() - started;
      calls++;
      requireComplete(result);
    }
    ValueResult cleared = client.blocking().clear(puts, Options.DEFAULT);
    if (cleared.status() != Status.OK || cleared.value() != calls * set.batch()) {
      throw new IllegalStateException(
          "cleared " + cleared + " after " + calls * set.batch() + " blocks were put");
    }
    return new Rate(calls, calls * set.batchBytes(), took);
  }

  private static void requireComplete(BatchResult result) {
    if (result.status() != Status.OK || !result.blocks().all(Status.OK)) {
      throw new IllegalStateException(
          result.status() + " " + result.detail() + ", blocks " + result.blocks());
    }
  }

  @Override
  public void close() {
    arena.close();
  }
}
