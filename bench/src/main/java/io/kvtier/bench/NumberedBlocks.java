package io.kvtier.bench;

import io.kvtier.client.BatchResult;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.client.ValueResult;
import io.kvtier.protocol.Status;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;

/**
 * Blocks of one size, known by their numbers, which one client puts as fast as they are taken, and
 * reads back to compare them to the byte. Each is a window into one random buffer, a line further
 * on than the one before it.
 */
final class NumberedBlocks implements AutoCloseable {
  /** For whom a full daemon is no mistake. */
  static final Options PATIENT = Options.DEFAULT.withTimeout(Duration.ofMinutes(2));

  private static final int SHIFT_BYTES = 64;

  private final Arena arena = Arena.ofShared();
  private final int blockBytes;
  private final int count;
  private final int batch;
  private final MemorySegment contents;
  private final MemorySegment read;

  /**
   * Makes their contents.
   *
   * @param batch how many go with one call
   */
  NumberedBlocks(int blockBytes, int count, int batch) {
    this.blockBytes = blockBytes;
    this.count = count;
    this.batch = batch;
    contents = arena.allocate(blockBytes + (long) count * SHIFT_BYTES, 4096);
    read = arena.allocate((long) batch * blockBytes, 4096);
    SplittableRandom random = new SplittableRandom(count);
    for (long at = 0; at + Long.BYTES <= contents.byteSize(); at += Long.BYTES) {
      contents.set(ValueLayout.JAVA_LONG, at, random.nextLong());
    }
  }

  /** The bytes of all of them. */
  long bytes() {
    return (long) count * blockBytes;
  }

  /** Puts all of them, under a tag that their keys have; those that are refused, again. */
  void putAll(KvtierClient client, Namespace namespace, long tag) {
    List<Integer> numbers = new ArrayList<>();
    int next = 0;
    while (next < count || !numbers.isEmpty()) {
      while (numbers.size() < batch && next < count) {
        numbers.add(next++);
      }
      BatchResult result =
          client
              .blocking()
              .put(
                  namespace,
                  keys(tag, numbers),
                  numbers.stream().map(this::content).toList(),
                  PATIENT);
      List<Integer> refused = new ArrayList<>();
      for (int i = 0; i < numbers.size(); i++) {
        Status status = result.blocks().status(i);
        if (status == Status.BUSY) {
          refused.add(numbers.get(i));
        } else if (status != Status.OK) {
          throw new IllegalStateException(
              "the put of block " + numbers.get(i) + " ended " + status);
        }
      }
      numbers = refused;
    }
  }

  /** Gets the newest of them and compares them; throws when one is missing, or has other bytes. */
  void checkNewest(KvtierClient client, Namespace namespace, long tag, int newest) {
    for (int from = count - newest; from < count; from += batch) {
      List<Integer> numbers = new ArrayList<>();
      List<MemorySegment> into = new ArrayList<>();
      for (int i = 0; i < Math.min(batch, count - from); i++) {
        numbers.add(from + i);
        into.add(read.asSlice((long) i * blockBytes, blockBytes));
      }
      read.fill((byte) 0);
      BatchResult result = client.blocking().get(namespace, keys(tag, numbers), into, PATIENT);
      for (int i = 0; i < numbers.size(); i++) {
        if (result.blocks().status(i) != Status.OK) {
          throw new IllegalStateException(
              "block " + numbers.get(i) + " is " + result.blocks().status(i) + " after its put");
        }
        if (into.get(i).mismatch(content(numbers.get(i))) >= 0) {
          throw new IllegalStateException("block " + numbers.get(i) + " has wrong bytes");
        }
      }
    }
  }

  /** The same of all. */
  void checkAll(KvtierClient client, Namespace namespace, long tag) {
    checkNewest(client, namespace, tag, count);
  }

  /** Throws where a daemon has not done what it was asked. */
  static void requireOk(String what, ValueResult result) {
    if (result.status() != Status.OK) {
      throw new IllegalStateException(what + " ended " + result);
    }
  }

  private MemorySegment content(int number) {
    return contents.asSlice((long) number * SHIFT_BYTES, blockBytes);
  }

  private static Keys keys(long tag, List<Integer> numbers) {
    MemorySegment keys = MemorySegment.ofArray(new long[numbers.size() * BenchKeys.KEY_BYTES / 8]);
    for (int i = 0; i < numbers.size(); i++) {
      BenchKeys.put(keys, (long) i * BenchKeys.KEY_BYTES, tag, numbers.get(i));
    }
    return Keys.wrap(keys, BenchKeys.KEY_BYTES);
  }

  @Override
  public void close() {
    arena.close();
  }
}
