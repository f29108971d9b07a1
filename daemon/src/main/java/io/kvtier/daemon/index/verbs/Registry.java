package io.kvtier.daemon.index.verbs;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.core.Accounts;
import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.protocol.Counted;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Decides which namespaces can be registered, and knows their size classes in the tiers. A
 * namespace is free when no session has registered it, and no block and no operation belongs to it.
 * A free namespace is forgotten in two cases: there are too many namespaces, or its name is
 * registered with other properties, as an upgraded engine does.
 */
public final class Registry {
  private static final Logger LOG = LoggerFactory.getLogger(Registry.class);
  private static final long LOOK_EVERY_NS = 100_000_000;
  private static final int SESSIONS_NAMED = 3;

  private final Directory directory;
  private final Namespaces namespaces;
  private final Accounts accounts;
  private final BlockStore store;
  private final @Nullable BlockEvents events;
  private final LongSupplier clock;
  private final Consumer<BitSet> users;
  private final BitSet warned = new BitSet();
  private long lookAgainNs;

  /**
   * Knows nothing yet.
   *
   * @param events hears of new namespaces; null when nobody listens
   * @param users notes the namespaces that sessions have registered, or operations are about
   */
  public Registry(
      IndexCore core, BlockStore store, @Nullable BlockEvents events, Consumer<BitSet> users) {
    directory = core.directory();
    namespaces = core.namespaces();
    accounts = core.accounts();
    clock = core.clock();
    this.store = store;
    this.events = events;
    this.users = users;
    lookAgainNs = clock.getAsLong();
  }

  public Namespaces.@Nullable Namespace byName(int tenant, String name) {
    return namespaces.byName(tenant, name);
  }

  /** The number of a tenant, or -1 when the tenant no longer exists. */
  public int tenant(String name) {
    return namespaces.tenants().number(name);
  }

  /**
   * Why a client that may only read can't register another namespace; null when it can. Half of a
   * tenant's namespaces, and of its block sizes, are kept for clients that write: a reader usually
   * registers a namespace of theirs.
   */
  @Nullable String whyNoReader(int tenant, long blockBytes) {
    if (!hasHalf(tenant, blockBytes)) {
      forgetUnused();
    }
    return hasHalf(tenant, blockBytes)
        ? null
        : Counted.of(namespaces.size(tenant), "namespace")
            + " with "
            + Counted.of(store.first().slots().classesInUse(tenant), "block size")
            + " exist already, and the rest of the limit is reserved for clients with the role"
            + " write: use an existing namespace, or let such a client register this one first";
  }

  private boolean hasHalf(int tenant, long blockBytes) {
    SlotAllocator slots = store.first().slots();
    return namespaces.size(tenant) < Math.max(1, namespaces.max(tenant) / 2)
        && (slots.hasClass(tenant, blockBytes)
            || slots.classesInUse(tenant) < SlotAllocator.CLASSES_MAX / 2);
  }

  /** Why a tenant can have no namespace of such blocks; null when it can. */
  @Nullable
  public String whyNot(int tenant, long blockBytes, Map<String, String> properties) {
    if (namespaces.size(tenant) >= namespaces.max(tenant)) {
      forgetUnused();
    }
    if (namespaces.size(tenant) >= namespaces.max(tenant)) {
      return "the limit of "
          + Counted.of(namespaces.size(tenant), "namespace")
          + " is reached, and all of them are in use";
    }
    SlotAllocator slots = store.first().slots();
    if (slots.regionsOfPart(tenant) == 0) {
      return tenant == Grant.NO_TENANT
          ? "no memory of this daemon is left for those who are of no tenant (tenants, host.bytes)"
          : "tenant "
              + namespaces.tenants().name(tenant)
              + " has no memory (host_bytes of tenants)";
    }
    if (blockBytes <= 0 || blockBytes > slots.regionBytes() || blockBytes > Integer.MAX_VALUE) {
      return "block_bytes is "
          + blockBytes
          + ", expected 1 to the slab size (host.slab_bytes), "
          + slots.regionBytes();
    }
    for (ResidentTier tier : store.stack().lower()) {
      if (blockBytes > tier.blockBytesMax()) {
        return "block_bytes is "
            + blockBytes
            + ", expected at most "
            + tier.blockBytesMax()
            + ", which is what fits into a file of the "
            + tier.traits().title()
            + " tier ("
            + tier.traits().name()
            + ".file_bytes) with its header";
      }
    }
    BlockEncoding encoding;
    try {
      encoding = BlockEncoding.of(properties, blockBytes);
    } catch (IllegalArgumentException e) {
      return e.getMessage();
    }
    long encodedBytes = encoding == null ? blockBytes : encoding.encodedBytes();
    if (!hasClasses(tenant, blockBytes, encodedBytes)) {
      forgetUnused();
    }
    if (!hasClasses(tenant, blockBytes, encodedBytes)) {
      return "block_bytes is "
          + blockBytes
          + ", but there are "
          + SlotAllocator.CLASSES_MAX
          + " different sizes already, which is the limit, and all of them are in use";
    }
    return null;
  }

  private boolean hasClasses(int tenant, long blockBytes, long encodedBytes) {
    for (ResidentTier tier : store.stack().all()) {
      if (tier.hasSpaceFor(tenant)
          && (tier.sizeClass(tenant, blockBytes) == SlotAllocator.NONE
              || tier.sizeClass(tenant, encodedBytes) == SlotAllocator.NONE)) {
        return false;
      }
    }
    return true;
  }

  /** Forgets a namespace if it is free; false when it is not. */
  boolean forgetFree(Namespaces.Namespace namespace) {
    if (directory.recordsOf(namespace.id()) > 0 || inUse().get(namespace.id())) {
      return false;
    }
    namespaces.forget(namespace);
    return true;
  }

  /** Why a name can't be registered with other properties, and what makes the name free. */
  public static String taken(
      Namespaces.Namespace known, String difference, int blocks, List<String> sessions) {
    StringBuilder text = new StringBuilder("namespace '").append(known.name());
    text.append("' is registered with other properties: ").append(difference);
    text.append("; it is free when no session has it and it has no block: now ");
    text.append(Counted.of(blocks, "block")).append(", ");
    text.append(Counted.of(sessions.size(), "session"));
    for (int i = 0; i < Math.min(SESSIONS_NAMED, sessions.size()); i++) {
      text.append(i == 0 ? " (" : "; ").append(sessions.get(i));
    }
    text.append(sessions.size() > SESSIONS_NAMED ? "; ...)" : sessions.isEmpty() ? "" : ")");
    return text.append(sessions.isEmpty() ? "; to free it" : "; to free it, end the sessions, then")
        .append(": kvtier clear --namespace=")
        .append(known.name())
        .toString();
  }

  private BitSet inUse() {
    BitSet inUse = new BitSet();
    users.accept(inUse);
    store.objects().removals().noteInUse(inUse);
    return inUse;
  }

  /**
   * Forgets unused namespaces. The search is rare, so that a client that is refused and asks again
   * at once does not cause one each time.
   */
  private void forgetUnused() {
    long now = clock.getAsLong();
    if (now - lookAgainNs < 0) {
      return;
    }
    lookAgainNs = now + LOOK_EVERY_NS;
    BitSet inUse = inUse();
    List<ResidentTier> tiers = store.stack().all();
    List<BitSet> classes = tiers.stream().map(tier -> new BitSet()).toList();
    for (int id = 0; id < namespaces.end(); id++) {
      Namespaces.Namespace namespace = namespaces.byId(id);
      if (namespace == null) {
        continue;
      }
      if (!inUse.get(id) && directory.recordsOf(id) == 0) {
        namespaces.forget(namespace);
        continue;
      }
      for (ResidentTier tier : tiers) {
        keep(tier.classFor(id, false), classes.get(tier.number()));
        keep(tier.classFor(id, true), classes.get(tier.number()));
      }
    }
    tiers.forEach(tier -> tier.slots().forgetClasses(classes.get(tier.number())));
  }

  private static void keep(int sizeClass, BitSet classes) {
    if (sizeClass != SlotAllocator.NONE) {
      classes.set(sizeClass);
    }
  }

  /** Warns when a tenant has fewer records than slots: some of the slots stay empty. */
  private void warnOfFewRecords(Namespaces.Namespace added) {
    int tenant = added.tenant();
    int records = store.records().max(tenant);
    long slots = 0;
    for (ResidentTier tier : store.stack().all()) {
      int sizeClass = tier.classFor(added.id(), true);
      slots += sizeClass == SlotAllocator.NONE ? 0 : slotsFor(tier.slots(), tenant, sizeClass);
    }
    if (records < slots && !warned.get(tenant)) {
      warned.set(tenant);
      LOG.warn(
          "the tiers have space for {} blocks of namespace '{}', but limits.blocks allows {} only"
              + " {}: raise it, or some of the space stays unused",
          slots,
          added.name(),
          tenant == Grant.NO_TENANT
              ? "those of no tenant"
              : "tenant " + namespaces.tenants().name(tenant),
          records);
    }
  }

  private static long slotsFor(SlotAllocator slots, int tenant, int sizeClass) {
    return (long) slots.regionsOfPart(tenant) * slots.slotsPerRegion(sizeClass);
  }

  /** Adds a namespace that {@link #whyNot} allows. */
  public Namespaces.Namespace add(
      int tenant, String name, long blockBytes, Map<String, String> properties) {
    Namespaces.Namespace added = namespaces.add(tenant, name, blockBytes, properties);
    store.open(added);
    directory.setNamespace(added.id(), added.high(), tenant, blockBytes);
    accounts.opened(added);
    warnOfFewRecords(added);
    if (events != null) {
      events.name(added.id(), namespaces.fullName(added), added.properties());
    }
    return added;
  }
}
