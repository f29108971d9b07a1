package io.kvtier.tiers.object.janitor;

import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.object.ObjectStore;
import io.kvtier.tiers.object.StoreResult;
import io.kvtier.tiers.transfer.Checksums;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tells the collector, whichever node that is, which objects this node used: from time to time as
 * an object of 8 bytes for each of them. Stores keep no more than when an object was written.
 *
 * <p>A use is told once a period however often it happens. A use counts from the time when it was
 * told, up to a period later than it was. Uses beyond the room, and those of a node that dies
 * before it tells them, are forgotten. Safe for several threads.
 */
public final class UseLog implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(UseLog.class);

  /**
   * How a node keeps and tells its uses.
   *
   * @param keysMax of a period; the log takes at most 48 bytes of the heap for each, and 8 more of
   *     native memory while they are told
   * @param periodNs between two tellings
   * @param timeoutNs of a telling
   */
  public record Options(int keysMax, long periodNs, long timeoutNs) {
    public Options {
      if (keysMax < 1 || keysMax > 1 << 24 || periodNs <= 0 || timeoutNs <= 0) {
        throw new IllegalArgumentException(
            "a log of uses keeps 1 to "
                + (1 << 24)
                + " keys ("
                + keysMax
                + "), and its period ("
                + periodNs
                + " ns) and timeout ("
                + timeoutNs
                + " ns) are longer than nothing");
      }
    }

    /** For 8 MiB of the heap. */
    public static Options defaults() {
      return new Options(1 << 18, TimeUnit.MINUTES.toNanos(5), TimeUnit.SECONDS.toNanos(30));
    }
  }

  private final ObjectStore store;
  private final String node;
  private final Options options;
  private final Object lock = new Object();
  private long[] slots;
  private long[] spare;
  private int count;
  private long forgotten;
  private long lastNumber;
  private @Nullable Thread thread;
  private volatile boolean closed;

  /**
   * Keeps uses; tells them when {@link #tell} is called, or by itself after {@link #start}.
   *
   * @param store stays the caller's
   * @param node a name that no other node has
   */
  public UseLog(ObjectStore store, String node, Options options) {
    this.store = store;
    this.node = ReservedNames.checkNode(node);
    this.options = options;
    // Two thirds full at most.
    int capacity = Integer.highestOneBit(options.keysMax() * 3 / 2) << 1;
    slots = new long[capacity];
    spare = new long[capacity];
  }

  /**
   * The block's object was loaded or found present, or a copy of the block above it was used or
   * dropped because the object is there. Allocates nothing, and never waits for the store.
   */
  public void used(ObjectKey key) {
    add(UseLogDescriptor.digest(key));
  }

  private void add(long digest) {
    synchronized (lock) {
      int mask = slots.length - 1;
      int at = (int) digest & mask;
      while (slots[at] != 0) {
        if (slots[at] == digest) {
          return;
        }
        at = (at + 1) & mask;
      }
      if (count == options.keysMax()) {
        forgotten++;
        return;
      }
      slots[at] = digest;
      count++;
    }
  }

  /** How many uses there was no room for. */
  public long forgotten() {
    synchronized (lock) {
      return forgotten;
    }
  }

  /**
   * Tells by itself from now on, once a period, on a thread of its own.
   *
   * @param defect told of what should never happen: other nodes are told of no use any more
   */
  public void start(Consumer<Throwable> defect) {
    synchronized (lock) {
      if (thread != null || closed) {
        throw new IllegalStateException("a log of uses is started once");
      }
      thread = Thread.ofPlatform().daemon().name("object-uses").start(() -> run(defect));
    }
  }

  private void run(Consumer<Throwable> defect) {
    try {
      while (!closed) {
        TimeUnit.NANOSECONDS.sleep(options.periodNs());
        if (!tell()) {
          LOG.warn("the log of used objects could not be written to {}", store.describe());
        }
      }
    } catch (InterruptedException e) {
      // Closed.
    } catch (RuntimeException | Error e) {
      defect.accept(e);
    }
  }

  /**
   * Writes what was used since the last time, and waits for it.
   *
   * @return whether it is written; what is not stays, as far as there is room, for the next time
   */
  public synchronized boolean tell() {
    long[] told;
    int toldCount;
    synchronized (lock) {
      told = slots;
      toldCount = count;
      slots = spare;
      spare = told;
      count = 0;
    }
    if (toldCount == 0) {
      return true;
    }
    boolean written = write(told, toldCount);
    if (!written) {
      for (long digest : told) {
        if (digest != 0) {
          add(digest);
        }
      }
    }
    Arrays.fill(told, 0);
    return written;
  }

  private boolean write(long[] told, int toldCount) {
    try (Arena arena = Arena.ofShared()) {
      MemorySegment log =
          arena.allocate(
              UseLogDescriptor.DIGESTS_OFFSET + (long) toldCount * Long.BYTES, Long.BYTES);
      long at = UseLogDescriptor.DIGESTS_OFFSET;
      for (long digest : told) {
        if (digest != 0) {
          Words.putLong(log, at, digest);
          at += Long.BYTES;
        }
      }
      Words.putLong(log, UseLogDescriptor.MAGIC_OFFSET, UseLogDescriptor.MAGIC);
      Words.putInt(log, UseLogDescriptor.VERSION_OFFSET, UseLogDescriptor.VERSION);
      Words.putInt(
          log,
          UseLogDescriptor.CHECKSUM_OFFSET,
          Checksums.of(log.asSlice(UseLogDescriptor.DIGESTS_OFFSET)));
      // The number only has to be new. That of a log that was removed may come again.
      lastNumber = Math.max(lastNumber + 1, System.currentTimeMillis());
      StoreResult result =
          store
              .put(ReservedNames.used(node, lastNumber), List.of(log), true, options.timeoutNs())
              .result()
              .join();
      return result instanceof StoreResult.Done;
    }
  }

  /** Tells what is left, as far as the store takes it in time. */
  @Override
  public void close() {
    closed = true;
    Thread started;
    synchronized (lock) {
      started = thread;
    }
    if (started != null) {
      started.interrupt();
    }
    boolean _ = tell();
  }
}
