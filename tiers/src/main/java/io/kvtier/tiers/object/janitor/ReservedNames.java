package io.kvtier.tiers.object.janitor;

import io.kvtier.tiers.object.ObjectNames;
import org.jspecify.annotations.Nullable;

/**
 * What nodes tell each other through the store, beside its blocks. No block's name starts like
 * these.
 *
 * <pre>
 *   _kvtier/lease/NUMBER          the terms of the lease, the highest of which counts
 *   _kvtier/clock/NODE            written to see the store's time
 *   _kvtier/used/NODE/NUMBER      what a node used: {@link UseLogDescriptor}
 * </pre>
 */
final class ReservedNames {
  static final String ALL = "_kvtier/";
  static final String LEASES = ALL + "lease/";
  static final String USED = ALL + "used/";
  private static final String CLOCKS = ALL + "clock/";
  private static final int DIGITS = 20;

  private ReservedNames() {}

  static String clock(String node) {
    return CLOCKS + node;
  }

  static String lease(long number) {
    return LEASES + padded(number);
  }

  static String used(String node, long number) {
    return USED + node + '/' + padded(number);
  }

  /** Names of padded numbers have the order of the numbers. */
  private static String padded(long number) {
    String digits = Long.toString(number);
    return "0".repeat(DIGITS - digits.length()) + digits;
  }

  /** The number of a lease, or 0 for a name that is none. */
  static long leaseNumber(String name) {
    if (name.length() != LEASES.length() + DIGITS || !name.startsWith(LEASES)) {
      return 0;
    }
    long number = 0;
    for (int i = LEASES.length(); i < name.length(); i++) {
      char c = name.charAt(i);
      if (c < '0' || c > '9' || number > (Long.MAX_VALUE - 9) / 10) {
        return 0;
      }
      number = 10 * number + c - '0';
    }
    return number;
  }

  /**
   * Refuses a node's name that can be no part of an object's.
   *
   * @throws IllegalArgumentException naming what is wrong
   */
  static String checkNode(String node) {
    try {
      ObjectNames.check(clock(node));
    } catch (IllegalArgumentException e) {
      throw refusal(node, e);
    }
    if (node.indexOf('/') >= 0) {
      throw refusal(node, null);
    }
    return node;
  }

  private static IllegalArgumentException refusal(String node, @Nullable Throwable cause) {
    return new IllegalArgumentException(
        "the node's name '"
            + node
            + "' cannot stand in an object's name: write A-Z a-z 0-9 . _ - only, no dot first",
        cause);
  }
}
