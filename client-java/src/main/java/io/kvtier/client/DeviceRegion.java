package io.kvtier.client;

import io.kvtier.protocol.Status;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * Device memory of this process that the daemon has opened. The daemon copies blocks to and from
 * this memory. From a call until its future is done, the memory of the blocks is the daemon's: it
 * must not be used otherwise, or freed. Thread-safe.
 *
 * <p>A region belongs to a session. After a restart of the daemon, its calls answer UNAVAILABLE.
 * Register the memory again then.
 *
 * <p>UNAVAILABLE does not mean that the memory may be used again. The session has ended, also by
 * {@link KvtierClient#close}, and the daemon may still be copying:
 *
 * <ul>
 *   <li>A daemon that lives hears of the end. It begins no further copy, and ends the others within
 *       milliseconds.
 *   <li>The copies of a daemon that was killed end with its process.
 *   <li>Where the daemon's process or its GPU hangs, bytes can come at any later time. If that can
 *       happen, use the memory again only when the process has ended.
 * </ul>
 */
public interface DeviceRegion {
  /** The outcome of a registration. */
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

    /** All layers. */
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

  /** The specification that the region was registered with. */
  RegionSpec spec();

  /**
   * Copies blocks of this memory to the daemon, which keeps them. Others find a block when all of
   * its layers have come. Cancelling the future does not end the copies.
   */
  CompletableFuture<BatchResult> put(Keys keys, Selection blocks, Options options);

  /**
   * Copies blocks that the daemon keeps to this memory. Blocks of lower tiers are loaded first.
   * Only blocks with the outcome OK have their bytes. Cancelling the future does not end the
   * copies.
   */
  CompletableFuture<BatchResult> get(Keys keys, Selection blocks, Options options);

  /**
   * Says which blocks are in this memory, so that other regions get them from here: over NVLink, or
   * on this GPU. Their bytes must be there now, and must stay unchanged until {@link #revoke} has
   * answered: others copy them, and nothing checks the copies. The end of the region or of the
   * session withdraws all blocks.
   *
   * <p>A block's outcome is one of these:
   *
   * <ul>
   *   <li>OK
   *   <li>EXISTS: it is advertised already, in this block of the memory.
   *   <li>BUSY: there is no room; or this region has advertised the key before, in another block or
   *       until the key was deleted, and its revocation has not ended.
   * </ul>
   *
   * @param numbers for each key the block's number in this memory
   * @param rank the number that lookups show for this engine; the last one counts for all blocks
   */
  CompletableFuture<BatchResult> advertise(Keys keys, int[] numbers, int rank, Options options);

  /**
   * Withdraws advertised blocks; done when no copy of them is under way. Blocks with the outcome OK
   * or MISS (not advertised) can be used again. Other outcomes do not say so.
   */
  CompletableFuture<BatchResult> revoke(Keys keys, Options options);

  /** Has the daemon close its mappings after the copies that are under way, and waits for that. */
  Status close();

  /** The daemon's number for this region, as in {@link LookupResult.Holder}. */
  int id();
}
