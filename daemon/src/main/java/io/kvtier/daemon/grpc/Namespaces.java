package io.kvtier.daemon.grpc;

import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The block sizes of the namespaces that remote callers registered. */
final class NamespaceSizes {
  private final Map<Integer, Integer> blockBytes = new HashMap<>();

  void put(int namespaceId, int bytes) {
    blockBytes.put(namespaceId, bytes);
  }

  void remove(int namespaceId) {
    blockBytes.remove(namespaceId);
  }

  boolean isKnown(int namespaceId) {
    return blockBytes.containsKey(namespaceId);
  }

  /** The size of a namespace's blocks, in bytes. */
  int blockBytes(int namespaceId) throws RefusedException {
    @Nullable Integer bytes = blockBytes.get(namespaceId);
    if (bytes == null) {
      throw new RefusedException(
          io.kvtier.protocol.Status.NAMESPACE_UNKNOWN,
          "namespace "
              + Integer.toUnsignedString(namespaceId)
              + " is not registered: register it first");
    }
    return bytes;
  }
}
