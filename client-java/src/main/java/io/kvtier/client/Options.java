package io.kvtier.client;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * How to carry out one operation. Make them once and reuse them.
 *
 * @param timeoutNs the operation's deadline, from its submission; 0 takes the client's
 * @param group the cache group of the blocks, 0 to 65535
 * @param depth how many blocks of the sequence stand before the first key
 * @param parent the key before the first, or null: one key of the same length
 * @param leaseNs how long an acquired lease shall last; 0 takes the daemon's default
 * @param leadingRun acquire only the blocks before the first that is nowhere
 * @param noWait acquire only what is in host memory; what is lower answers PENDING and is brought
 *     up
 */
public record Options(
    long timeoutNs,
    Priority priority,
    int group,
    int depth,
    @Nullable Keys parent,
    long leaseNs,
    boolean leadingRun,
    boolean noWait) {
  public static final Options DEFAULT =
      new Options(0, Priority.NORMAL, 0, 0, null, 0, false, false);

  public Options {
    if (timeoutNs < 0 || leaseNs < 0) {
      throw new IllegalArgumentException(
          "a time is not negative: timeout " + timeoutNs + " ns, lease " + leaseNs + " ns");
    }
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

  public Options withTimeout(Duration timeout) {
    return new Options(
        timeout.toNanos(), priority, group, depth, parent, leaseNs, leadingRun, noWait);
  }

  public Options withPriority(Priority value) {
    return new Options(timeoutNs, value, group, depth, parent, leaseNs, leadingRun, noWait);
  }

  public Options withGroup(int value) {
    return new Options(timeoutNs, priority, value, depth, parent, leaseNs, leadingRun, noWait);
  }

  public Options withDepth(int value) {
    return new Options(timeoutNs, priority, group, value, parent, leaseNs, leadingRun, noWait);
  }

  public Options withParent(@Nullable Keys value) {
    return new Options(timeoutNs, priority, group, depth, value, leaseNs, leadingRun, noWait);
  }

  public Options withLease(Duration lease) {
    return new Options(
        timeoutNs, priority, group, depth, parent, lease.toNanos(), leadingRun, noWait);
  }

  public Options withLeadingRun(boolean value) {
    return new Options(timeoutNs, priority, group, depth, parent, leaseNs, value, noWait);
  }

  public Options withNoWait(boolean value) {
    return new Options(timeoutNs, priority, group, depth, parent, leaseNs, leadingRun, value);
  }
}
