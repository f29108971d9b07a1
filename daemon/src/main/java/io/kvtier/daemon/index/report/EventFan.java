package io.kvtier.daemon.index.report;

import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.tiers.transfer.Transfer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Tells several listeners in which tiers blocks are. Confined to the index. */
public final class EventFan implements BlockEvents {
  private final List<BlockEvents> listeners = new ArrayList<>();

  /** Adds a listener, which hears of all changes from now on. */
  public void add(BlockEvents listener) {
    listeners.add(listener);
  }

  @Override
  public void stored(int tiers, int block) {
    for (int i = 0; i < listeners.size(); i++) {
      listeners.get(i).stored(tiers, block);
    }
  }

  @Override
  public void removed(int tiers, int block) {
    for (int i = 0; i < listeners.size(); i++) {
      listeners.get(i).removed(tiers, block);
    }
  }

  @Override
  public void removedSought(int tiers, int namespaceId, int group, int keyBytes) {
    for (int i = 0; i < listeners.size(); i++) {
      listeners.get(i).removedSought(tiers, namespaceId, group, keyBytes);
    }
  }

  @Override
  public void removedNamed(int tiers, int namespaceId, Transfer named) {
    for (int i = 0; i < listeners.size(); i++) {
      listeners.get(i).removedNamed(tiers, namespaceId, named);
    }
  }

  @Override
  public void name(int namespaceId, String name, Map<String, String> properties) {
    for (int i = 0; i < listeners.size(); i++) {
      listeners.get(i).name(namespaceId, name, properties);
    }
  }
}
