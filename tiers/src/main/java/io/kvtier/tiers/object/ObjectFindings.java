package io.kvtier.tiers.object;

import io.kvtier.protocol.Status;
import java.util.LinkedHashSet;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Findings of a pipeline on objects: which are there, which are not, which are damaged, and which
 * only other nodes can read. For one thread.
 */
final class ObjectFindings {
  /** The most names of damaged objects. Further damaged objects are not replaced. */
  private static final int DAMAGED_MAX = 1024;

  private final @Nullable ObjectCipher cipher;
  private final @Nullable PresenceCache presence;
  private final ObjectCounters counters;
  private final Set<String> damaged = new LinkedHashSet<>();
  private final OthersObjects others = new OthersObjects();

  /**
   * No findings yet.
   *
   * @param cipher null where objects are not encrypted
   * @param presence told of objects that are there and that are not; null for nobody
   */
  ObjectFindings(
      @Nullable ObjectCipher cipher, @Nullable PresenceCache presence, ObjectCounters counters) {
    this.cipher = cipher;
    this.presence = presence;
    this.counters = counters;
  }

  /** Whether the next store of a block must replace the object. */
  boolean isDamaged(ObjectOperation operation) {
    return damaged.contains(operation.name);
  }

  /** Whether the object is one that this node can't read, though others may. */
  boolean isOthers(ObjectOperation operation) {
    return others.contains(operation.name);
  }

  /** A block was loaded. */
  void loaded(ObjectOperation operation) {
    others.remove(operation.name);
    present(operation);
  }

  /** A block was stored. */
  void stored(ObjectOperation operation) {
    damaged.remove(operation.name);
    others.remove(operation.name);
    present(operation);
  }

  /** The object was there already. */
  void present(ObjectOperation operation) {
    if (presence != null) {
      presence.present(ObjectKey.of(operation.transfer()));
    }
  }

  /** There is no such object. */
  void absent(ObjectOperation operation) {
    others.remove(operation.name);
    tellAbsent(operation);
  }

  /** The object does not verify. The next store of the block replaces it. */
  void damaged(ObjectOperation operation) {
    if (damaged.size() < DAMAGED_MAX) {
      damaged.add(operation.name);
    }
    tellAbsent(operation);
  }

  private void tellAbsent(ObjectOperation operation) {
    if (presence != null) {
      presence.absent(ObjectKey.of(operation.transfer()));
    }
  }

  /**
   * This node can't read the object, but other nodes may: it must not be replaced.
   *
   * @param status of the block that was opened
   * @return how the load ends
   */
  Status leaveToOthers(ObjectOperation operation, Status status, long nowNs) {
    damaged.remove(operation.name);
    tellAbsent(operation);
    if (status != Status.DENIED) {
      others.add(
          operation.name,
          "is of another version of the format",
          "Nodes that share a store should be of one version.",
          nowNs);
      return status;
    }
    ObjectHeader header = operation.block.header();
    if (header.isEncrypted()) {
      counters.add(ObjectCounter.OTHER_KEY, 1);
      others.add(
          operation.name,
          "is encrypted with key "
              + CipherKey.text(header.keyId())
              + ", and this node has "
              + ObjectCipher.describe(cipher),
          "Configure that key to read with, or delete what was written with it.",
          nowNs);
    } else {
      counters.add(ObjectCounter.NOT_ENCRYPTED, 1);
      others.add(
          operation.name,
          "is not encrypted, and this node has " + ObjectCipher.describe(cipher),
          "Allow such objects while they are being replaced, or delete them.",
          nowNs);
    }
    return Status.MISS;
  }
}
