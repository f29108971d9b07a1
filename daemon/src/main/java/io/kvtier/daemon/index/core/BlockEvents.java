package io.kvtier.daemon.index.core;

import io.kvtier.tiers.transfer.Transfer;
import java.util.Map;

/**
 * Hears in which tiers blocks are. Called by the index for every change, on its thread; an
 * implementation neither waits nor allocates.
 */
public interface BlockEvents {
  /** The bits of tiers. */
  int HOST = 1;

  int SSD = 2;
  int OBJECT = 4;

  /** A block is in a tier, or its annotation has come. */
  void stored(int tiers, int block);

  /** A block has left a tier. */
  void removed(int tiers, int block);

  /** The block whose key the directory sought last has left a tier. */
  void removedSought(int tiers, int namespaceId, int group, int keyBytes);

  /** The block that a transfer names has left a tier. */
  void removedNamed(int tiers, int namespaceId, Transfer named);

  /**
   * A namespace has got an id.
   *
   * @param name its full name
   */
  void name(int namespaceId, String name, Map<String, String> properties);
}
