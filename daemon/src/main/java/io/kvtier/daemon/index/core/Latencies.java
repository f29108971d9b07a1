package io.kvtier.daemon.index.core;

import io.kvtier.protocol.Verb;
import java.util.concurrent.atomic.AtomicLongArray;
import org.jspecify.annotations.Nullable;

/**
 * How long operations and transfers took, since the start: a histogram of nanoseconds for each
 * kind, in which every power of two has eight buckets, so that a value is known to an eighth. The
 * index alone writes; any thread reads.
 *
 * <p>What is answered in the round of the index in which it was taken is counted when the next
 * round begins, with the time in between: so no clock is read on its account.
 */
public final class Latencies {
  /** What is timed. */
  public enum Kind {
    /** From the request for blocks to their leases. */
    GET("get"),

    /** From the request for slots to the slots. */
    RESERVE("reserve"),

    /** From what was written to its being visible. */
    COMMIT("commit"),

    /** From the request to copy blocks from a GPU to the copies. */
    OFFLOAD("offload"),

    /** From the request to copy blocks to a GPU to the copies. */
    ONBOARD("onboard"),

    /** A block read from SSD, in the pipeline. */
    LOAD_SSD("load_ssd"),

    /** A block written to SSD, in the pipeline. */
    STORE_SSD("store_ssd"),

    /** A block read from the object store, its wait included. */
    LOAD_OBJECT("load_object"),

    /** A block written to the object store, its wait included. */
    STORE_OBJECT("store_object"),

    /** A block read from another node, its wait included. */
    LOAD_NODE("load_node"),

    /** From a block being whole to its arrival at a node that has expected it. */
    DELIVER_NODE("deliver_node");

    private final String key;

    Kind(String key) {
      this.key = key;
    }

    /** The name in JSON and in metrics. */
    public String key() {
      return key;
    }

    /** What a request is timed as; null where it is not. */
    static @Nullable Kind of(Verb verb) {
      return switch (verb) {
        case ACQUIRE -> GET;
        case RESERVE -> RESERVE;
        case COMMIT -> COMMIT;
        case OFFLOAD -> OFFLOAD;
        case ONBOARD -> ONBOARD;
        default -> null;
      };
    }
  }

  private static final int PARTS_BITS = 3;
  private static final int PARTS = 1 << PARTS_BITS;
  private static final int VALUE_BITS = 41;

  /** So many buckets; longer than half an hour is counted in the last. */
  public static final int BUCKETS = (VALUE_BITS - PARTS_BITS + 1) * PARTS;

  private static final long VALUE_MAX = (1L << VALUE_BITS) - 1;

  private final AtomicLongArray[] counts;
  private final int[] answeredAtOnce;
  private long roundNs;
  private boolean isAnyAtOnce;

  /** Empty histograms. */
  public Latencies() {
    int kinds = Kind.values().length;
    counts = new AtomicLongArray[kinds];
    answeredAtOnce = new int[kinds];
    for (int i = 0; i < kinds; i++) {
      // The last one is the sum.
      counts[i] = new AtomicLongArray(BUCKETS + 1);
    }
  }

  // ---- the index's side

  /** The index begins a round. */
  public void roundBegins(long nowNs) {
    if (isAnyAtOnce) {
      isAnyAtOnce = false;
      for (int i = 0; i < answeredAtOnce.length; i++) {
        if (answeredAtOnce[i] > 0) {
          add(counts[i], nowNs - roundNs, answeredAtOnce[i]);
          answeredAtOnce[i] = 0;
        }
      }
    }
    roundNs = nowNs;
  }

  /** When this round began. */
  public long roundNs() {
    return roundNs;
  }

  /** An operation that began in the round of {@code beganNs} is answered. */
  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  public void answered(Verb verb, long beganNs) {
    Kind kind = Kind.of(verb);
    if (kind == null) {
      return;
    }
    if (beganNs == roundNs) {
      answeredAtOnce[kind.ordinal()]++;
      isAnyAtOnce = true;
    } else {
      add(counts[kind.ordinal()], roundNs - beganNs, 1);
    }
  }

  /** A transfer has taken so long. */
  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  public void took(Kind kind, long ns) {
    add(counts[kind.ordinal()], ns, 1);
  }

  private static void add(AtomicLongArray counts, long ns, int times) {
    long value = Math.clamp(ns, 0, VALUE_MAX);
    int bucket = bucketOf(value);
    counts.lazySet(bucket, counts.getPlain(bucket) + times);
    counts.lazySet(BUCKETS, counts.getPlain(BUCKETS) + value * times);
  }

  // ---- the readers' side

  /** Counts of all buckets up to now; those of one kind may be a few values apart. */
  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  public long[] counts(Kind kind) {
    AtomicLongArray from = counts[kind.ordinal()];
    long[] copy = new long[BUCKETS];
    for (int i = 0; i < BUCKETS; i++) {
      copy[i] = from.getAcquire(i);
    }
    return copy;
  }

  /** The sum of all values up to now, ns. */
  @SuppressWarnings("EnumOrdinal") // a place in an array of this class
  public long sumNs(Kind kind) {
    return counts[kind.ordinal()].getAcquire(BUCKETS);
  }

  /** The bucket of a value. */
  public static int bucketOf(long ns) {
    int shift = Math.max(0, 64 - Long.numberOfLeadingZeros(ns) - PARTS_BITS - 1);
    return (shift << PARTS_BITS) + (int) (ns >>> shift);
  }

  /** What all values of a bucket are below. */
  public static long limitOf(int bucket) {
    int shift = Math.max(0, (bucket >>> PARTS_BITS) - 1);
    return ((long) (bucket - (shift << PARTS_BITS)) + 1) << shift;
  }

  /** How many values there are. */
  public static long total(long[] counts) {
    long total = 0;
    for (long count : counts) {
      total += count;
    }
    return total;
  }

  /**
   * What that share of the values is at most, ns, to the width of a bucket; -1 where there are
   * none.
   */
  public static long quantile(long[] counts, double share) {
    long total = total(counts);
    long rank = (long) Math.ceil(total * share);
    long seen = 0;
    for (int i = 0; i < counts.length; i++) {
      seen += counts[i];
      if (counts[i] > 0 && seen >= rank) {
        return limitOf(i) - 1;
      }
    }
    return -1;
  }
}
