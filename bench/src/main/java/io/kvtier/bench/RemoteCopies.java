package io.kvtier.bench;

import io.kvtier.client.BatchResult;
import io.kvtier.client.CacheNamespace;
import io.kvtier.client.Keys;
import io.kvtier.client.Options;
import io.kvtier.client.RemoteClient;
import io.kvtier.client.ValueResult;
import io.kvtier.protocol.Status;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Gets and puts through the Java client over gRPC, in batches, one call after the other. */
final class RemoteCopies implements AutoCloseable {
  private final Arena arena = Arena.ofShared();
  private final WorkingSet set;
  private final CacheNamespace gets;
  private final CacheNamespace puts;
  private final List<Keys> getKeys = new ArrayList<>();
  private int next;
  private long nextPut;

  /** Puts the blocks that will be got into the daemon. */
  RemoteCopies(RemoteClient client, int blockBytes, int blocks, int batch) {
    set = new WorkingSet(blockBytes, blocks, batch, arena);
    gets = client.namespace("bench-java-get-" + blockBytes, blockBytes, Map.of());
    puts = client.namespace("bench-java-put-" + blockBytes, blockBytes, Map.of());
    for (int index = 0; index < set.batches(); index++) {
      int from = index;
      getKeys.add(keys(JavaCopies.GET_TAG, i -> set.number(from, i)));
      set.mark(index);
      requireComplete(gets.put(getKeys.get(index), set.batch(index), Options.DEFAULT).join());
    }
  }

  private Keys keys(long tag, java.util.function.IntToLongFunction numbers) {
    MemorySegment keys = arena.allocate((long) set.batch() * BenchKeys.KEY_BYTES, 8);
    for (int i = 0; i < set.batch(); i++) {
      BenchKeys.put(keys, (long) i * BenchKeys.KEY_BYTES, tag, numbers.applyAsLong(i));
    }
    return Keys.wrap(keys, BenchKeys.KEY_BYTES);
  }

  /** Copies batches out for a while; bytes per nanosecond. */
  double getGbps(long durationNs) {
    long calls = 0;
    long took = 0;
    while (took < durationNs) {
      int index = next;
      next = (next + 1) % set.batches();
      set.unmark(index);
      long started = System.nanoTime();
      BatchResult result = gets.get(getKeys.get(index), set.batch(index), Options.DEFAULT).join();
      took += System.nanoTime() - started;
      calls++;
      requireComplete(result);
      set.check(index);
    }
    return calls * (double) set.batchBytes() / took;
  }

  /** Copies fresh blocks in for a while, but no more than the working set, and clears them. */
  double putGbps(long durationNs) {
    long calls = 0;
    long took = 0;
    while (took < durationNs && calls < set.batches()) {
      long first = nextPut;
      Keys keys = keys(JavaCopies.PUT_TAG, i -> first + i);
      nextPut += set.batch();
      long started = System.nanoTime();
      BatchResult result = puts.put(keys, set.batch((int) calls), Options.DEFAULT).join();
      took += System.nanoTime() - started;
      calls++;
      requireComplete(result);
    }
    ValueResult cleared = puts.clear(Options.DEFAULT).join();
    if (cleared.status() != Status.OK || cleared.value() != calls * set.batch()) {
      throw new IllegalStateException(
          "cleared " + cleared + " after " + calls * set.batch() + " blocks were put");
    }
    return calls * (double) set.batchBytes() / took;
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
