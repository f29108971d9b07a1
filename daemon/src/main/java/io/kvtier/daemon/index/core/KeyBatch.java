package io.kvtier.daemon.index.core;

import java.lang.foreign.MemorySegment;

/**
 * The block keys of one request: keys of one namespace and one group, which stand at equal
 * distances in memory. Mutable, and reused for every request.
 */
public class KeyBatch {
  public int namespaceId;
  public int group;

  /** How many keys there are. */
  public int count;

  /** The length of a key. */
  public int keyBytes;

  /** The distance from the beginning of a key to the beginning of the next one, in bytes. */
  public int keyStride;

  /** The memory in which the keys stand. Its client can still write there. */
  public MemorySegment segment = MemorySegment.NULL;

  /** The offset of the first key. In requests without keys: of the first id or character. */
  public long body;

  /** The offset of a key. */
  long key(int i) {
    return body + (long) i * keyStride;
  }
}
