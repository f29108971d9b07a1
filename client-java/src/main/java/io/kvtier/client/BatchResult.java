package io.kvtier.client;

import io.kvtier.protocol.Status;

/**
 * What an operation on blocks came to.
 *
 * @param status OK when the operation was carried out, whatever its blocks say; otherwise why not,
 *     and every block that was not reached says the same
 * @param detail why not, in words; empty when there is nothing to say
 */
public record BatchResult(Status status, String detail, Blocks blocks) {
  /**
   * How many blocks from the first on are OK, one after the other: what a prefix cache can use of
   * them.
   */
  public int run() {
    return blocks.run();
  }

  /** Whether the operation was carried out and each block is OK, or was there before. */
  public boolean isComplete() {
    return status == Status.OK
        && blocks.count(Status.OK) + blocks.count(Status.EXISTS) == blocks.count();
  }
}
