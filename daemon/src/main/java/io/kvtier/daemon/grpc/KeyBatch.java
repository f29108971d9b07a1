package io.kvtier.daemon.grpc;

import com.google.protobuf.ByteString;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.v1.Keys;
import java.util.List;

/**
 * A batch of keys that the index will take: checked as the index would check it, because a request
 * that breaks the protocol ends the session of all remote callers.
 */
record KeyBatch(
    int namespaceId, int group, List<ByteString> keys, int keyBytes, ByteString parent, int depth) {
  private static final int GROUP_MAX = 0xffff;

  /**
   * Checks what came over the wire.
   *
   * @param namespaceId the index's id of the namespace
   */
  static KeyBatch of(Keys wire, int namespaceId) throws RefusedException {
    int count = wire.getKeysCount();
    if (count == 0 || count > Protocol.KEYS_MAX) {
      throw new RefusedException(
          count == 0 ? Status.INVALID_ARGUMENT : Status.TOO_LARGE,
          count + " keys, expected 1 to " + Protocol.KEYS_MAX);
    }
    int keyBytes = wire.getKeys(0).size();
    if (keyBytes < 1 || keyBytes > Protocol.KEY_BYTES_MAX) {
      throw invalid("a key has " + keyBytes + " bytes, expected 1 to " + Protocol.KEY_BYTES_MAX);
    }
    for (ByteString key : wire.getKeysList()) {
      if (key.size() != keyBytes) {
        throw invalid("keys of " + keyBytes + " and of " + key.size() + " bytes in one request");
      }
    }
    ByteString parent = wire.getParent();
    if (!parent.isEmpty() && parent.size() != keyBytes) {
      throw invalid("a parent of " + parent.size() + " bytes for keys of " + keyBytes);
    }
    if (wire.getGroup() < 0 || wire.getGroup() > GROUP_MAX) {
      throw invalid("the group is not one of 0 to " + GROUP_MAX);
    }
    if (wire.getDepth() < 0) {
      throw invalid("the depth is not one of 0 to " + Integer.MAX_VALUE);
    }
    return new KeyBatch(
        namespaceId, wire.getGroup(), wire.getKeysList(), keyBytes, parent, wire.getDepth());
  }

  private static RefusedException invalid(String why) {
    return new RefusedException(Status.INVALID_ARGUMENT, why);
  }

  int count() {
    return keys.size();
  }

  /** The keys from one place up to another, with the key before them as their parent. */
  KeyBatch part(int from, int to) {
    ByteString before = from == 0 ? parent : keys.get(from - 1);
    return new KeyBatch(namespaceId, group, keys.subList(from, to), keyBytes, before, depth + from);
  }

  /** The key at one place, alone. */
  KeyBatch only(int place) {
    return part(place, place + 1);
  }
}
