package io.kvtier.client;

import io.kvtier.protocol.RequestDescriptor;
import java.time.Duration;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * How to carry out one operation. Make them once and reuse them.
 *
 * @param timeoutNs the operation's deadline, from its submission; 0 takes the client's
 * @param position where the keys stand in their sequence
 * @param leasing how blocks are acquired
 * @param importance how important the blocks of a put are to eviction policies: 0 (they can leave
 *     first) to 3; 1 is usual. A block keeps the highest importance of all of its puts
 */
public record Options(
    long timeoutNs, Priority priority, Position position, Leasing leasing, int importance) {
  /**
   * Where the keys of a batch stand in their sequence.
   *
   * @param group the cache group of the blocks, 0 to 65535
   * @param depth how many blocks of the sequence stand before the first key
   * @param parent the key before the first, or null: one key of the same length
   */
  public record Position(int group, int depth, @Nullable Keys parent) {
    public Position {
      if (group < 0 || group > 0xffff) {
        throw new IllegalArgumentException("group is 0 to 65535, not " + group);
      }
      if (depth < 0) {
        throw new IllegalArgumentException("depth is not negative: " + depth);
      }
      if (parent != null && parent.count() != 1) {
        throw new IllegalArgumentException("the parent is one key, not " + parent.count());
      }
    }
  }

  /**
   * How blocks are acquired.
   *
   * @param leaseNs how long an acquired lease shall last; 0 takes the daemon's default
   * @param leadingRun acquire only the blocks before the first that is nowhere
   * @param noWait acquire only what is in host memory; a block in a lower tier answers PENDING and
   *     is brought up
   * @param expectedFrom the name or the address of the node that is going to have those blocks that
   *     are nowhere yet; empty: none is
   */
  public record Leasing(long leaseNs, boolean leadingRun, boolean noWait, String expectedFrom) {
    /** Blocks that are nowhere are not expected. */
    public Leasing(long leaseNs, boolean leadingRun, boolean noWait) {
      this(leaseNs, leadingRun, noWait, "");
    }

    public Leasing {
      Objects.requireNonNull(expectedFrom, "expectedFrom is null, expected a node's name or \"\"");
      if (leaseNs < 0) {
        throw new IllegalArgumentException("a lease's time is not negative: " + leaseNs + " ns");
      }
    }
  }

  public static final Options DEFAULT =
      new Options(
          0,
          Priority.NORMAL,
          new Position(0, 0, null),
          new Leasing(0, false, false),
          RequestDescriptor.IMPORTANCE_NORMAL);

  public Options {
    if (timeoutNs < 0) {
      throw new IllegalArgumentException("a timeout is not negative: " + timeoutNs + " ns");
    }
    if (importance < 0 || importance > RequestDescriptor.IMPORTANCE_MAX) {
      throw new IllegalArgumentException("importance is 0 to 3, not " + importance);
    }
  }

  public int group() {
    return position.group();
  }

  public int depth() {
    return position.depth();
  }

  public @Nullable Keys parent() {
    return position.parent();
  }

  public long leaseNs() {
    return leasing.leaseNs();
  }

  public boolean leadingRun() {
    return leasing.leadingRun();
  }

  public boolean noWait() {
    return leasing.noWait();
  }

  public String expectedFrom() {
    return leasing.expectedFrom();
  }

  public Options withTimeout(Duration timeout) {
    return new Options(timeout.toNanos(), priority, position, leasing, importance);
  }

  public Options withPriority(Priority value) {
    return new Options(timeoutNs, value, position, leasing, importance);
  }

  public Options withGroup(int value) {
    return with(new Position(value, depth(), parent()));
  }

  public Options withDepth(int value) {
    return with(new Position(group(), value, parent()));
  }

  public Options withParent(@Nullable Keys value) {
    return with(new Position(group(), depth(), value));
  }

  /** These options at another position of the sequence. */
  public Options withPosition(int depth, @Nullable Keys parent) {
    return with(new Position(group(), depth, parent));
  }

  public Options withLease(Duration lease) {
    return with(new Leasing(lease.toNanos(), leadingRun(), noWait(), expectedFrom()));
  }

  public Options withLeadingRun(boolean value) {
    return with(new Leasing(leaseNs(), value, noWait(), expectedFrom()));
  }

  public Options withNoWait(boolean value) {
    return with(new Leasing(leaseNs(), leadingRun(), value, expectedFrom()));
  }

  /**
   * Expects those blocks that are nowhere yet from a node that is going to have them. They come
   * from there while they are written. An acquire or a get waits for them until its timeout; blocks
   * that have not come by then are DEADLINE or MISS. The leases last from the arrival of a block
   * until {@link #leaseNs} after the timeout. A daemon before version 2.3 of the protocol waits for
   * no blocks. Other operations ignore it, and so does an acquire or a get with {@link #noWait}.
   *
   * @param node the name or the address of the node, as {@code kvtier nodes} shows it; empty: none
   */
  public Options withExpectedFrom(String node) {
    return with(new Leasing(leaseNs(), leadingRun(), noWait(), node));
  }

  public Options withImportance(int value) {
    return new Options(timeoutNs, priority, position, leasing, value);
  }

  private Options with(Position other) {
    return new Options(timeoutNs, priority, other, leasing, importance);
  }

  private Options with(Leasing other) {
    return new Options(timeoutNs, priority, position, other, importance);
  }
}
