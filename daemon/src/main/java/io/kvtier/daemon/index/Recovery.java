package io.kvtier.daemon.index;

import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.LongQueue;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.verbs.Registry;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Protocol;
import io.kvtier.tiers.ledger.Ledger;
import io.kvtier.tiers.ledger.LedgerEntry;
import io.kvtier.tiers.ledger.LedgerLeg;
import io.kvtier.tiers.ledger.RowsAhead;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds again what earlier starts of the daemon left in the tiers, before the first request: reads
 * the ledgers into the directory. No block's bytes are looked at: whoever reads them first holds
 * them to their checksum. A row that can't be true any more is forgotten.
 */
final class Recovery {
  private static final Logger LOG = LoggerFactory.getLogger(Recovery.class);

  /** The blocks of one tier, each with the count of its store: the order in which they came. */
  private static final class Adopted {
    private long[] generations = new long[64];
    private int[] blocks = new int[64];
    private int size;
    private long lastGeneration;

    void add(long generation, int block) {
      if (size == blocks.length) {
        generations = Arrays.copyOf(generations, 2 * size);
        blocks = Arrays.copyOf(blocks, 2 * size);
      }
      generations[size] = generation;
      blocks[size++] = block;
      lastGeneration = Math.max(lastGeneration, generation);
    }

    /** Shows the blocks in the order in which they came: policies take that for their order. */
    void show(ResidentTier tier) {
      long first = lastGeneration;
      for (int i = 0; i < size; i++) {
        first = Math.min(first, generations[i]);
      }
      // As finely as is possible beside a block's number: blocks that came together may change
      // places.
      int shift = Math.max(0, Long.SIZE - Long.numberOfLeadingZeros(lastGeneration - first) - 31);
      long[] order = new long[size];
      for (int i = 0; i < size; i++) {
        order[i] = (generations[i] - first) >>> shift << 32 | blocks[i];
      }
      Arrays.sort(order);
      for (long one : order) {
        tier.showAdopted((int) one);
      }
    }
  }

  private final Directory directory;
  private final Registry registry;
  private final BlockStore store;
  private final Counters counters;
  private final MemorySegment key = Arena.ofAuto().allocate(Protocol.KEY_BYTES_MAX, Long.BYTES);
  private final Map<Namespaces.Fingerprint, Namespaces.Known> known = new HashMap<>();
  private final Map<Namespaces.Fingerprint, Namespaces.Namespace> used = new HashMap<>();
  private Namespaces.Fingerprint lastName = new Namespaces.Fingerprint(0, 0);
  private Namespaces.@Nullable Namespace lastNamespace;
  private long untrueRows;

  Recovery(Directory directory, Registry registry, BlockStore store, Counters counters) {
    this.directory = directory;
    this.counters = counters;
    this.registry = registry;
    this.store = store;
  }

  /**
   * Adopts the blocks of all tiers.
   *
   * @param ledgers of each tier, one a device
   * @param storesBegin no store from now on is to have a lower count
   */
  void run(List<List<Ledger>> ledgers, long storesBegin) throws IOException {
    long lastFirstRow = storesBegin;
    long lastStore = storesBegin;
    for (ResidentTier tier : store.stack().all()) {
      Adopted adopted = adopt(tier, ledgers.get(tier.number()));
      counters.add(tier.traits().counts().found(), adopted.size);
      if (tier == store.first()) {
        lastFirstRow = Math.max(lastFirstRow, adopted.lastGeneration);
      } else {
        lastStore = Math.max(lastStore, adopted.lastGeneration);
      }
    }
    store.continueAfter(lastFirstRow, lastStore);
    counters.add(Counter.FOUND_UNTRUE, untrueRows);
  }

  private Adopted adopt(ResidentTier tier, List<Ledger> ledgers) throws IOException {
    Adopted adopted = new Adopted();
    for (int lane = 0; lane < ledgers.size(); lane++) {
      Ledger ledger = ledgers.get(lane);
      known.clear();
      Set<Integer> ids = new HashSet<>();
      ledger.forEachNamespace((id, fingerprint, text) -> {
        ids.add(id);
        Namespaces.Known one = Namespaces.ofText(text);
        if (one != null) {
          ByteBuffer halves = ByteBuffer.wrap(fingerprint);
          known.put(new Namespaces.Fingerprint(halves.getLong(), halves.getLong()), one);
        }
      });
      LongQueue untrue = new LongQueue(Integer.MAX_VALUE);
      int of = lane;
      RowsAhead.forEach(
          ledger,
          (place, entry) -> {
            int region = Transfer.regionOf(place) * ledgers.size() + of;
            int block = adopt(tier, entry, region, Transfer.offsetOf(place));
            if (block == Directory.NONE) {
              var _ = untrue.offer(place);
            } else {
              adopted.add(entry.generation, block);
            }
          });
      untrueRows += untrue.size() + ledger.damagedRows();
      if (ledger.damagedRows() > 0) {
        LOG.warn(
            "{} rows of the {} tier's ledger {} were damaged: their blocks are forgotten",
            ledger.damagedRows(),
            tier.traits().title(),
            lane);
      }
      while (untrue.size() > 0) {
        ledger.forget(untrue.poll());
      }
      // Numbers are given anew in every start; a namespace without a block is not kept.
      ids.forEach(ledger::forgetNamespace);
      used.forEach((name, namespace) ->
          ledger.recordNamespace(
              namespace.id(), LedgerLeg.fingerprint(name.high(), name.low()), namespace.text()));
      ledger.commit(false);
    }
    tier.slots().endAdoption();
    adopted.show(tier);
    return adopted;
  }

  private int adopt(ResidentTier tier, LedgerEntry entry, int region, long offset) {
    Namespaces.Namespace namespace = namespace(entry.namespaceHigh, entry.namespaceLow);
    boolean isEncoded = namespace != null && entry.length != namespace.blockBytes();
    int sizeClass = namespace == null ? -1 : tier.classFor(namespace.id(), isEncoded);
    if (namespace == null || sizeClass < 0 || entry.length != namespace.storedBytes(isEncoded)) {
      return Directory.NONE;
    }
    MemorySegment.copy(MemorySegment.ofArray(entry.key), 0, key, 0, key.byteSize());
    int block = directory.find(namespace.id(), entry.group, entry.keyBytes, key, 0);
    boolean isNew = block == Directory.NONE;
    if (isNew) {
      block = directory.insertSought(namespace.id(), entry.group, entry.keyBytes);
      if (block == Directory.NONE) {
        return Directory.NONE;
      }
      directory.set(Directory.FLAG_ENCODED, block, isEncoded);
      directory.setChecksum(block, entry.checksum);
      directory.setLineage(block, entry.depth, entry.parent);
    }
    if (entry.annotationBytes > 0 && directory.annotations().bytes(block) == 0) {
      boolean isKept =
          directory
              .annotations()
              .set(block, MemorySegment.ofArray(entry.annotation), 0, entry.annotationBytes);
      counters.add(Counter.ANNOTATIONS_DROPPED, isKept ? 0 : 1);
    }
    if (directory.checksum(block) == entry.checksum
        && directory.has(Directory.FLAG_ENCODED, block) == isEncoded
        && tier.state(block) == CopyState.NONE
        && tier.adopt(block, sizeClass, region, offset)) {
      return block;
    }
    if (isNew) {
      directory.unlink(block);
      directory.free(block);
    }
    return Directory.NONE;
  }

  private Namespaces.@Nullable Namespace namespace(long high, long low) {
    if (lastNamespace != null && lastName.high() == high && lastName.low() == low) {
      return lastNamespace;
    }
    Namespaces.Fingerprint name = new Namespaces.Fingerprint(high, low);
    Namespaces.Namespace namespace = used.get(name);
    if (namespace == null) {
      namespace = register(name);
    }
    lastName = name;
    lastNamespace = namespace;
    return namespace;
  }

  private Namespaces.@Nullable Namespace register(Namespaces.Fingerprint name) {
    Namespaces.Known one = known.get(name);
    int tenant = one == null ? -1 : registry.tenant(one.tenant());
    if (one == null
        || tenant < 0
        || registry.whyNot(tenant, one.blockBytes(), one.properties()) != null) {
      return null;
    }
    Namespaces.Namespace namespace = registry.byName(tenant, one.name());
    if (namespace == null) {
      namespace = registry.add(tenant, one.name(), one.blockBytes(), one.properties());
    }
    if (!namespace.fingerprint().equals(name)) {
      return null;
    }
    used.put(name, namespace);
    return namespace;
  }
}
