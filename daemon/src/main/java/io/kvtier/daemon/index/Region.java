package io.kvtier.daemon.index;

import io.kvtier.tiers.gpu.DevicePipeline;
import io.kvtier.tiers.gpu.DeviceRegion;
import io.kvtier.tiers.gpu.KvLayout;
import org.jspecify.annotations.Nullable;

/**
 * An engine's device region, from the request to open it until it is closed. It belongs to a
 * session, and outlives it as long as copies of it are under way.
 */
final class Region {
  final int id;
  final int namespaceId;
  final KvLayout layout;

  /** The operation that waits until it is open, or closed; null: none does. */
  @Nullable Operation waiting;

  @Nullable DeviceRegion opened;
  @Nullable DevicePipeline pipeline;

  /** Operations that copy. */
  int jobs;

  /** No further request may name it; it is closed when its last operation has ended. */
  boolean isClosing;

  /** It is being closed. */
  boolean isOrdered;

  Region(int id, int namespaceId, KvLayout layout, @Nullable Operation waiting) {
    this.id = id;
    this.namespaceId = namespaceId;
    this.layout = layout;
    this.waiting = waiting;
  }
}
