package io.kvtier.daemon.index;

import io.kvtier.tiers.slots.SlotAllocator;
import java.util.BitSet;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * How namespaces come and go: which there can be, and what they get in the tiers. Where there are
 * too many, those that no session has registered and no block or operation is of are forgotten;
 * else one client could use up all that there can be.
 */
final class Registry {
  private static final long LOOK_EVERY_NS = 100_000_000;

  private final Directory directory;
  private final Namespaces namespaces;
  private final BlockStore store;
  private final LongSupplier clock;
  private final Consumer<BitSet> users;
  private long lookAgainNs;

  /**
   * Knows nothing yet.
   *
   * @param users notes the namespaces that sessions have registered, or operations are about
   */
  Registry(
      Directory directory,
      Namespaces namespaces,
      BlockStore store,
      LongSupplier clock,
      Consumer<BitSet> users) {
    this.directory = directory;
    this.namespaces = namespaces;
    this.store = store;
    this.clock = clock;
    this.users = users;
    lookAgainNs = clock.getAsLong();
  }

  Namespaces.@Nullable Namespace byName(int tenant, String name) {
    return namespaces.byName(tenant, name);
  }

  /** A tenant's number, or -1 for one that there is no more. */
  int tenant(String name) {
    return namespaces.tenants().number(name);
  }

  /** Why a tenant can have no namespace of blocks of that size; null when it can. */
  @Nullable String whyNot(int tenant, long blockBytes) {
    if (namespaces.size(tenant) >= namespaces.max(tenant)) {
      forgetUnused();
    }
    if (namespaces.size(tenant) >= namespaces.max(tenant)) {
      return "there are "
          + namespaces.size(tenant)
          + " namespaces already, which is the limit, and all of them are in use";
    }
    SlotAllocator slots = store.host().slots();
    if (slots.regionsOfPart(tenant) == 0) {
      return "no memory of this daemon is left for those who are of no tenant (tenants, host.bytes)";
    }
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
    if (!hasClasses(tenant, blockBytes)) {
      forgetUnused();
    }
    if (!hasClasses(tenant, blockBytes)) {
      return "block_bytes is "
          + blockBytes
          + ", but there are "
          + SlotAllocator.CLASSES_MAX
          + " different sizes already, which is the limit, and all of them are in use";
    }
    return null;
  }

  private boolean hasClasses(int tenant, long blockBytes) {
    return store.host().slots().sizeClass(tenant, blockBytes) != SlotAllocator.NONE
        && (!store.hasSsd(tenant) || store.ssdClassFor(tenant, blockBytes) != SlotAllocator.NONE);
  }

  /** Who is refused and asks again at once does not have all looked through each time. */
  private void forgetUnused() {
    long now = clock.getAsLong();
    if (now - lookAgainNs < 0) {
      return;
    }
    lookAgainNs = now + LOOK_EVERY_NS;
    BitSet inUse = new BitSet();
    users.accept(inUse);
    store.objects().noteInUse(inUse);
    BitSet hostClasses = new BitSet();
    BitSet ssdClasses = new BitSet();
    for (int id = 0; id < namespaces.end(); id++) {
      Namespaces.Namespace namespace = namespaces.byId(id);
      if (namespace == null) {
        continue;
      }
      if (!inUse.get(id) && directory.recordsOf(id) == 0) {
        namespaces.forget(namespace);
        continue;
      }
      hostClasses.set(namespace.hostClass());
      if (namespace.ssdClass() != SlotAllocator.NONE) {
        ssdClasses.set(namespace.ssdClass());
      }
    }
    store.host().slots().forgetClasses(hostClasses);
    store.ssd().slots().forgetClasses(ssdClasses);
  }

  /** Adds a namespace that there can be. */
  Namespaces.Namespace add(
      int tenant, String name, long blockBytes, Map<String, String> properties) {
    Namespaces.Namespace added =
        namespaces.add(
            tenant,
            name,
            blockBytes,
            properties,
            store.host().slots().sizeClass(tenant, blockBytes),
            store.ssdClassFor(tenant, blockBytes));
    directory.setNamespace(added.id(), added.high(), tenant);
    EventTap events = store.events();
    if (events != null) {
      events.name(added.id(), added.name(), added.properties());
    }
    return added;
  }
}
