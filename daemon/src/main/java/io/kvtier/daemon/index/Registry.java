package io.kvtier.daemon.index;

import io.kvtier.tiers.slots.SlotAllocator;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** How namespaces come: which there can be, and what they get in the tiers. */
final class Registry {
  private final Directory directory;
  private final Namespaces namespaces;
  private final BlockStore store;

  Registry(Directory directory, Namespaces namespaces, BlockStore store) {
    this.directory = directory;
    this.namespaces = namespaces;
    this.store = store;
  }

  Namespaces.@Nullable Namespace byName(String name) {
    return namespaces.byName(name);
  }

  /** Why there can be no namespace of blocks of that size; null when there can. */
  @Nullable String whyNot(long blockBytes) {
    if (namespaces.size() >= Namespaces.NAMESPACES_MAX) {
      return "there are " + namespaces.size() + " namespaces already, which is the limit";
    }
    SlotAllocator slots = store.host().slots();
    if (blockBytes <= 0 || blockBytes > slots.regionBytes() || blockBytes > Integer.MAX_VALUE) {
      return "block_bytes is "
          + blockBytes
          + ", expected 1 to the slab size (host.slab_bytes), "
          + slots.regionBytes();
    }
    long blockBytesMax = store.storedBlockBytesMax();
    if (blockBytes > blockBytesMax) {
      return "block_bytes is "
          + blockBytes
          + ", expected at most "
          + blockBytesMax
          + ", which is what fits into a file of the SSD tier (ssd.file_bytes) with its header";
    }
    if (slots.sizeClass(blockBytes) == SlotAllocator.NONE
        || (store.ssd().isConfigured() && store.ssdClassFor(blockBytes) == SlotAllocator.NONE)) {
      return "block_bytes is "
          + blockBytes
          + ", but there are "
          + SlotAllocator.CLASSES_MAX
          + " different sizes already, which is the limit";
    }
    return null;
  }

  /** Adds a namespace that there can be. */
  Namespaces.Namespace add(String name, long blockBytes, Map<String, String> properties) {
    Namespaces.Namespace added =
        namespaces.add(
            name,
            blockBytes,
            properties,
            store.host().slots().sizeClass(blockBytes),
            store.ssdClassFor(blockBytes));
    directory.setNamespaceFingerprint(added.id(), added.high());
    return added;
  }
}
