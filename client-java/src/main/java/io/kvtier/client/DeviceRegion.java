package io.kvtier.client;

import io.kvtier.protocol.Status;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * Device memory of this process that the daemon has opened. It copies blocks to and from it by
 * itself: from the call until its future is done the memory of the blocks is the daemon's, and must
 * not be used otherwise, or freed. Thread-safe.
 *
 * <p>A region belongs to a session: after a restart of the daemon its calls answer UNAVAILABLE, and
 * it is to be registered anew.
 *
 * <p>UNAVAILABLE does not say that the memory may be used again: the session has ended, also by
 * {@link KvtierClient#close}, and nobody is left to say when the copies are over that the daemon
 * had begun. A daemon that lives hears of the end, begins no more, and is through with the others
 * in the milliseconds that they take; those of one that was killed end with its process. Only where
 * its process hangs, or its GPU does, can bytes come later, without a bound: who can't rule that
 * out uses the memory again when that process has ended.
 */
public interface DeviceRegion {
  /** What came of a registration. */
  record Result(Status status, String detail, @Nullable DeviceRegion region) {}

  /** Which blocks to copy, and which layers of them. */
  final class Selection {
    private final int[] numbers;
    private final int firstLayer;
    private final int endLayer;
    private final int event;

    /**
     * Some layers of blocks.
     *
     * @param numbers for each key the block's number in this memory; not to be changed any more
     * @param endLayer one past the last layer; 0: all
     * @param event which event of the region the copies wait for, from 1; 0: none
     */
    public Selection(int[] numbers, int firstLayer, int endLayer, int event) {
      this.numbers = numbers;
      this.firstLayer = firstLayer;
      this.endLayer = endLayer;
      this.event = event;
    }

    /** All layers, at once. */
    public static Selection of(int... numbers) {
      return new Selection(numbers, 0, 0, 0);
    }

    /** For each key the block's number in this memory. Not a copy: must not be changed. */
    public int[] numbers() {
      return numbers;
    }

    public int firstLayer() {
      return firstLayer;
    }

    /** One past the last layer; 0: all. */
    public int endLayer() {
      return endLayer;
    }

    /** Which event of the region the copies wait for, from 1; 0: none. */
    public int event() {
      return event;
    }
  }

  /** What it was registered with. */
  RegionSpec spec();

  /**
   * Copies blocks of this memory to the daemon, which keeps them; a block is there for others when
   * all of its layers have come. Cancelling the future does not end the copies.
   */
  CompletableFuture<BatchResult> put(Keys keys, Selection blocks, Options options);

  /**
   * Copies blocks that the daemon keeps to this memory; from lower tiers they are loaded first.
   * Only those that are OK have their bytes. Cancelling the future does not end the copies.
   */
  CompletableFuture<BatchResult> get(Keys keys, Selection blocks, Options options);

  /**
   * Says which blocks stand in this memory, for other regions to get them from here: over NVLink,
   * or on this GPU. Their bytes must be there now, and stay unchanged until {@link #revoke} has
   * answered: what others get is what is read here, and nothing checks it. All are withdrawn when
   * the region or the session ends.
   *
   * <p>Blocks come to OK, EXISTS (advertised already, in this block), or BUSY (no room; or this
   * region has advertised the key before, in another block or until somebody deleted it, and has
   * not revoked it, or its revocation is under way).
   *
   * @param numbers for each key the block's number in this memory
   * @param rank what lookups call this engine; the last one given is that of all
   */
  CompletableFuture<BatchResult> advertise(Keys keys, int[] numbers, int rank, Options options);

  /**
   * Takes blocks back that are advertised; done when no copy of them is under way. Those that come
   * to OK, or to MISS (not advertised), can be used again; of any other that is not said.
   */
  CompletableFuture<BatchResult> revoke(Keys keys, Options options);

  /** Has the daemon close its mappings, after the copies that are under way; waits for that. */
  Status close();

  /** The daemon's number of it, as {@link LookupResult.Holder} has it. */
  int id();
}
