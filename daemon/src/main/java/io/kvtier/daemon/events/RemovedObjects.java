package io.kvtier.daemon.events;

import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What went from the object tier lately, and did not come back: a snapshot can't say what is in
 * that tier, of which blocks need no record here, but what is no longer. The oldest are forgotten
 * beyond a bound. For one thread.
 */
final class RemovedObjects {
  /** Is shown keys. */
  @FunctionalInterface
  interface Visitor {
    void visit(byte[] key, int group);
  }

  private final int max;
  private final Map<ByteBuffer, Integer> groups = new LinkedHashMap<>();

  RemovedObjects(int max) {
    this.max = max;
  }

  /** A block with its namespace and group, as a key of the map. */
  private static ByteBuffer name(EventRecord block) {
    return ByteBuffer.allocate(block.keyBytes + 2 * Integer.BYTES)
        .put(block.key, 0, block.keyBytes)
        .putInt(block.namespaceId)
        .putInt(block.group)
        .flip();
  }

  void add(EventRecord block) {
    var _ = groups.put(name(block), block.group);
    if (groups.size() > max) {
      var oldest = groups.keySet().iterator();
      var _ = oldest.next();
      oldest.remove();
    }
  }

  /** It is there again. */
  void remove(EventRecord block) {
    if (!groups.isEmpty()) {
      var _ = groups.remove(name(block));
    }
  }

  void forEach(Visitor visitor) {
    groups.forEach((name, group) -> {
      byte[] key = new byte[name.remaining() - 2 * Integer.BYTES];
      name.duplicate().get(key);
      visitor.visit(key, group);
    });
  }
}
