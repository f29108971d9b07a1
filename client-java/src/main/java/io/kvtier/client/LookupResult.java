package io.kvtier.client;

import io.kvtier.protocol.Status;
import org.jspecify.annotations.Nullable;

/**
 * What a lookup found.
 *
 * @param status OK when the daemon answered; otherwise why not, and every block says the same
 * @param detail why not, in words
 * @param run how many blocks from the first are there, in any tier
 * @param loadTimeNs the daemon's estimate of the time to load that run
 * @param holder the region that advertises the longest prefix; null: none has the first block. What
 *     is advertised alone is in no tier, and does not count in the run
 */
public record LookupResult(
    Status status,
    String detail,
    Blocks blocks,
    int run,
    long loadTimeNs,
    @Nullable Holder holder) {

  /**
   * A region that advertises the beginning of a sequence.
   *
   * @param run how many blocks from the first it has, without a hole; 1 or more
   * @param region its number at the daemon: {@link DeviceRegion#id}
   * @param gpu the ordinal of its GPU, as the daemon counts
   * @param rank what its owner calls itself
   */
  public record Holder(int run, int region, int gpu, int rank) {}
}
