package io.kvtier.policies.eviction;

import io.kvtier.policies.EvictionPolicy;

/**
 * Puts touches of single blocks together to the requests that they came from: as long as each is
 * the child, or each the parent, of the one before it. A request is whole when a touch does not
 * fit, or when its buffer is full; what then follows is a request that begins in the middle.
 *
 * <p>A request belongs to a sequence, so that all requests of a sequence can be sampled or none.
 * The sequence is named by the request's first block that is not shared by many sequences: behind
 * the first of all, and behind those in which more than one of {@value #POPULAR_SHARE} requests
 * agree, as in a system prompt.
 */
final class RequestAssembler {
  /** Hears of every whole request; it may be read until this returns. */
  @FunctionalInterface
  interface Listener {
    void onRequest(RequestAssembler request);
  }

  private static final int BLOCKS_MAX = 8192;
  private static final int POPULAR_SHARE = 32;
  private static final int KEYS_COUNTED = 2 * POPULAR_SHARE;
  private static final int REQUESTS_COUNTED = 4096;

  private final Listener listener;

  /** In the order of the touches. */
  private final long[] keys = new long[BLOCKS_MAX];

  private int size;
  private boolean isHeadFirst;
  private boolean isTailFirst;
  private long firstParent;
  private int firstDepth;
  private long lastParent;
  private int lastDepth;

  // How many requests of late went through the most popular blocks: Misra and Gries' summary.
  private final long[] countedKeys = new long[KEYS_COUNTED];
  private final int[] counts = new int[KEYS_COUNTED];
  private int counted;

  RequestAssembler(Listener listener) {
    this.listener = listener;
  }

  /** A block is touched. */
  void touch(long key, int depth, long parent) {
    if (size > 0) {
      boolean isChild =
          !isTailFirst && parent == keys[size - 1] && parent != EvictionPolicy.NO_PARENT;
      boolean isParent =
          !isHeadFirst && key == lastParent && lastParent != EvictionPolicy.NO_PARENT;
      if (size == BLOCKS_MAX || !(isChild || isParent)) {
        end();
      } else {
        isHeadFirst = isChild;
        isTailFirst = isParent;
      }
    }
    if (size == 0) {
      firstParent = parent;
      firstDepth = depth;
    }
    lastParent = parent;
    lastDepth = depth;
    keys[size++] = key;
  }

  /** What was touched until now is a request of its own. */
  void flush() {
    if (size > 0) {
      end();
    }
  }

  private void end() {
    listener.onRequest(this);
    size = 0;
    isHeadFirst = false;
    isTailFirst = false;
  }

  int size() {
    return size;
  }

  /** Whether the touches went from the tail to the head. */
  boolean isTailFirst() {
    return isTailFirst;
  }

  /** A block's key, by its place in the prompt. */
  long key(int place) {
    return keys[isTailFirst ? size - 1 - place : place];
  }

  /** The depth of the first block in the prompt. */
  int headDepth() {
    return isTailFirst ? lastDepth : firstDepth;
  }

  /** The parent of a block, by its place in the prompt. */
  long parent(int place) {
    return place > 0 ? key(place - 1) : isTailFirst ? lastParent : firstParent;
  }

  /** Whether the request begins where it can't be told which sequence it belongs to. */
  boolean isFragment() {
    return headDepth() > 1;
  }

  /** The name of the request's sequence, well mixed; to be asked for once a request. */
  long sequence() {
    if (++counted == REQUESTS_COUNTED) {
      counted /= 2;
      for (int i = 0; i < KEYS_COUNTED; i++) {
        counts[i] /= 2;
      }
    }
    int place = headDepth() == 0 && size > 1 ? 1 : 0;
    while (place < size - 1 && isPopular(key(place))) {
      place++;
    }
    // Another draw than the tables that keys go to by their own bits.
    long z = key(place) * 0x9E3779B97F4A7C15L;
    return z ^ z >>> 32;
  }

  /** Counts a key, and answers whether it is in many requests. */
  private boolean isPopular(long key) {
    int free = -1;
    for (int i = 0; i < KEYS_COUNTED; i++) {
      if (counts[i] == 0) {
        free = i;
      } else if (countedKeys[i] == key) {
        return ++counts[i] > Math.max(KEYS_COUNTED, counted) / POPULAR_SHARE;
      }
    }
    if (free >= 0) {
      countedKeys[free] = key;
      counts[free] = 1;
    } else {
      for (int i = 0; i < KEYS_COUNTED; i++) {
        counts[i]--;
      }
    }
    return false;
  }

  long bytes() {
    return 8L * keys.length + 12L * KEYS_COUNTED;
  }
}
