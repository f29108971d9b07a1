package io.kvtier.daemon.index.space;

import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.CopyTable;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicy.Removal;
import io.kvtier.policies.WhatIf;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.List;
import java.util.function.IntConsumer;
import java.util.function.IntPredicate;
import java.util.function.IntUnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * One tier whose space this daemon owns: its slots, the copies in them, the order in which they
 * leave, and which of them could leave now. The policy names victims; this class knows which copies
 * it may name. Confined to the index.
 *
 * <p>A copy can leave when it is resident and nobody uses it: no transfer of the daemon's, no lease
 * and no pin of a client's (unless the block stands in the first tier as well).
 */
public final class ResidentTier {
  private final int number;
  private final TierTraits traits;
  private final int headerBytes;
  private final Directory directory;
  private final CopyTable copies;
  private final SlotAllocator slots;
  private final IntUnaryOperator bytesOf;
  private final TierRows rows;
  private final @Nullable BlockEvents events;
  private final TierNamespaces namespaces;
  private final Aside aside;
  private final TierPolicies policies;
  private final Evictables evictables;
  private final Draining draining;
  private final VictimSearch victims;

  /** How many slots are in use without a copy. */
  private int kept;

  /**
   * An empty tier.
   *
   * @param number its place in the order of tiers; the first is 0
   * @param headerBytes the bytes of a slot before the block
   * @param policyName an eviction policy's specification
   */
  public ResidentTier(
      int number,
      TierTraits traits,
      TierParts.Common common,
      SlotAllocator slots,
      int headerBytes,
      String policyName,
      TierRows rows) {
    this.number = number;
    this.traits = traits;
    this.headerBytes = headerBytes;
    this.directory = common.directory();
    copies = directory.copies();
    this.slots = slots;
    this.bytesOf = common.bytesOf();
    this.rows = rows;
    this.events = common.events();
    namespaces = new TierNamespaces(directory, slots, headerBytes);
    aside = new Aside(number, copies, slots, new AsideOrder());
    policies =
        new TierPolicies(
            slots, directory.blocksMax(), common.recordsOfPart(), common.heapLeft(), policyName);
    evictables = new Evictables(number, directory, slots, aside);
    draining = new Draining(number, directory, slots, evictables);
    victims = new VictimSearch(number, directory, slots, policies, evictables, draining, aside);
  }

  /**
   * Takes copies on fenced devices out of the order in which copies leave, from now on. Their
   * eviction would free no usable slot, and a search would meet them again and again.
   *
   * @param fenced whether a lane is fenced
   */
  public void setAsideOn(IntPredicate fenced) {
    aside.setOn(fenced);
  }

  /** The most blocks that the tier could hold. */
  public int blocksMax() {
    return Math.clamp(slots.slotsMax(), 1, directory.blocksMax());
  }

  /** The policy's figures for tiers of other sizes; empty when the policy simulates none. */
  public List<WhatIf> whatIf() {
    return policies.whatIf();
  }

  public SlotAllocator slots() {
    return slots;
  }

  /** The tier's place in the order of tiers; the first is 0. */
  public int number() {
    return number;
  }

  /** The names and counters of the tier. */
  public TierTraits traits() {
    return traits;
  }

  // ---- what follows from a block's namespace

  /** Whether a tenant has space in the tier. */
  public boolean hasSpaceFor(int tenant) {
    return slots.regionsOfPart(tenant) > 0;
  }

  /** The size class of a tenant's blocks of that many bytes; NONE when they can't be here. */
  public int sizeClass(int tenant, long blockBytes) {
    return namespaces.sizeClass(tenant, blockBytes);
  }

  /** The longest block that the tier could take; no bound where it has no space. */
  public long blockBytesMax() {
    return isConfigured() ? slots.regionBytes() - headerBytes : Long.MAX_VALUE;
  }

  /** The bytes of a block's slot that are for the block. */
  public int payloadBytes(int block) {
    return slots.slotBytes(slots.classOf(slot(block))) - headerBytes;
  }

  /** Notes the size classes of a new namespace's blocks. */
  public void open(Namespaces.Namespace namespace) {
    namespaces.open(namespace);
  }

  /** The size class of a namespace's blocks in one of their forms; NONE when they can't be here. */
  public int classFor(int namespaceId, boolean isEncoded) {
    return namespaces.classFor(namespaceId, isEncoded);
  }

  /** Whether a block can be here at all. */
  public boolean takes(int block) {
    return namespaces.classOf(block) != SlotAllocator.NONE;
  }

  /** The size class of a block; NONE when it can't be here. */
  public int sizeClass(int block) {
    return namespaces.classOf(block);
  }

  public String policyName() {
    return policies.name();
  }

  /** All memory of the policy, in bytes. */
  public long policyBytes() {
    return policies.bytes();
  }

  /**
   * Replaces the policy, and inserts the blocks into the new one in the order in which they would
   * have left. Nothing else changes.
   *
   * @throws IllegalArgumentException when there is no such policy, or no memory for it: nothing has
   *     changed then
   */
  public void swapPolicy(String name) {
    policies.swap(name, this::insert);
    victims.orderChanged();
  }

  /** All copies that an earlier daemon left were adopted. */
  public void recovered() {
    policies.handedOver();
  }

  /** The policy of a block that has a slot. */
  private EvictionPolicy policyOf(int block) {
    return policies.ofSlot(slot(block));
  }

  private void insert(EvictionPolicy into, int block) {
    into.onInsert(
        block,
        bytesOf.applyAsInt(block),
        directory.fingerprint(block),
        directory.depth(block),
        directory.parent(block));
    if (directory.importance(block) != EvictionPolicy.NORMAL) {
      into.onImportance(block, directory.importance(block));
    }
  }

  /** The importance of a block has changed. */
  public void importanceChanged(int block) {
    if (isResident(block) && !aside.has(block)) {
      policyOf(block).onImportance(block, directory.importance(block));
    }
  }

  /** Whether the tier has any space at all. */
  public boolean isConfigured() {
    return slots.regions() > 0;
  }

  // ---- copies

  public CopyState state(int block) {
    return copies.state(number, block);
  }

  public void setState(int block, CopyState next) {
    copies.setState(number, block, next);
  }

  public boolean isResident(int block) {
    return copies.isResident(number, block);
  }

  public int slot(int block) {
    return copies.slot(number, block);
  }

  /**
   * Takes a slot for a block.
   *
   * @param session the session that will write the slot, or {@link SlotAllocator#DAEMON}
   * @param mayTake whether a region granted to another session may be taken over
   * @param mayDoubt whether a doubtful slot will do, which its last client may still write
   * @param lane the lane to take it from if that has one, or {@link SlotAllocator#ANY_LANE}
   * @return false when there is none
   */
  public boolean allocate(
      int block, int sizeClass, long session, boolean mayTake, boolean mayDoubt, int lane) {
    int slot = slots.allocate(sizeClass, session, mayTake, mayDoubt, block, lane);
    if (slot == SlotAllocator.NONE) {
      return false;
    }
    copies.setSlot(number, block, slot);
    return true;
  }

  /** Gives a copy's slot back; the copy is no more. */
  public void free(int block) {
    trust(block);
    setState(block, CopyState.NONE);
    takeBack(block);
    if (number == 0) {
      directory.endPushed(block);
    }
  }

  /**
   * Takes a copy's slot from the copy, which is no more. The slot stays in use until {@link
   * #freeKept}. The block must be in use until then.
   *
   * @return the slot
   */
  public int keepSlot(int block) {
    int slot = slot(block);
    setState(block, CopyState.NONE);
    copies.setSlot(number, block, Directory.NONE);
    kept++;
    return slot;
  }

  /** Gives a slot back that was kept. */
  public void freeKept(int slot) {
    slots.free(slot);
    kept--;
  }

  /** How many slots are kept; for tests. */
  public int kept() {
    return kept;
  }

  /** The checksum of a copy is that of its bytes. */
  public void trust(int block) {
    copies.set(CopyTable.TAKEN_OVER, number, block, false);
  }

  /** The checksum of a copy that an earlier daemon left was not made since. */
  public void distrust(int block) {
    copies.set(CopyTable.TAKEN_OVER, number, block, true);
  }

  /** Gives a slot back that was taken a moment ago; the copy's state is left as it is. */
  public void takeBack(int block) {
    int slot = slot(block);
    if (slot != Directory.NONE) {
      slots.free(slot);
      copies.setSlot(number, block, Directory.NONE);
    }
  }

  /** A copy is in place and verified. */
  public void becomeResident(int block) {
    setState(block, CopyState.RESIDENT);
    EvictionPolicy policy = policyOf(block);
    insert(policy, block);
    if (lacksParent(block)) {
      policy.onParentMissing(block);
    }
    namespaces.countResident(block, 1);
    rows.added(block);
    tellStored(block);
  }

  /**
   * Whether the block before a block in its sequence was here, and is no longer in this tier or
   * above. The block can be read without the block before it, but a reader needs both.
   */
  private boolean lacksParent(int block) {
    int parent = directory.parentBlock(block);
    return parent == Directory.NONE
        || (parent != Directory.UNSEEN && !copies.isDownTo(number, parent));
  }

  private void tellStored(int block) {
    if (events != null) {
      events.stored(traits.eventBit(), block);
    }
  }

  private void tellRemoved(int block) {
    if (events != null) {
      events.removed(traits.eventBit(), block);
    }
  }

  /**
   * Takes the slot in which an earlier start of the daemon left a block.
   *
   * @return false when that can't be: there is no such slot, or it is another's
   */
  public boolean adopt(int block, int sizeClass, int region, long offset) {
    int slot = slots.adopt(sizeClass, region, offset, block);
    if (slot == SlotAllocator.NONE) {
      return false;
    }
    copies.setSlot(number, block, slot);
    setState(block, CopyState.STAGING);
    return true;
  }

  /** A block has got its annotation: if the block is resident, its row is written again. */
  public void annotated(int block) {
    if (isResident(block)) {
      rows.added(block);
      tellStored(block);
    }
  }

  /** Makes an adopted copy resident; its row is written already. */
  public void showAdopted(int block) {
    distrust(block);
    setState(block, CopyState.RESIDENT);
    insert(policyOf(block), block);
    namespaces.countResident(block, 1);
  }

  /** Gives up a copy that was not completed; its row may have been written. */
  public void discard(int block) {
    rows.removed(block);
    free(block);
  }

  public void hit(int block) {
    if (!aside.has(block)) {
      policyOf(block).onHit(block);
    }
  }

  /** Takes a resident or staging copy out of use; its slot follows when nobody needs it. */
  public void leave(int block) {
    switch (state(block)) {
      case RESIDENT -> {
        takeOut(block, Removal.DELETED);
        namespaces.countResident(block, -1);
        rows.removed(block);
        tellRemoved(block);
        setState(block, CopyState.LEAVING);
      }
      case STAGING -> {
        if (slot(block) != Directory.NONE) {
          rows.removed(block);
        }
        setState(block, CopyState.LEAVING);
      }
      case NONE, RESERVED, LEAVING -> {}
    }
  }

  /** Drops an evictable copy to free its slot. */
  public void evict(int block) {
    victims.left();
    takeOut(block, Removal.EVICTED);
    namespaces.countResident(block, -1);
    rows.removed(block);
    tellRemoved(block);
    free(block);
  }

  private void takeOut(int block, Removal why) {
    if (!aside.remove(block)) {
      policyOf(block).onRemove(block, why);
    }
  }

  // ---- aside

  /** Takes copies that are set aside out of the policies, and inserts them again. */
  private final class AsideOrder implements Aside.Order {
    @Override
    public void leave(int block) {
      policyOf(block).onRemove(block, Removal.DELETED);
      recount(block);
    }

    @Override
    public void comeBack(int block) {
      insert(policyOf(block), block);
      recount(block);
    }
  }

  /**
   * Inserts copies of devices that are no longer fenced into the policies again, some each round,
   * as the newest.
   */
  public void returnAside() {
    aside.comeBack();
  }

  // ---- victims

  /** Whether a copy could leave now. */
  public boolean isEvictable(int block) {
    return evictables.has(block);
  }

  /** Updates the counts for a block; called after every change of the block. */
  public void recount(int block) {
    draining.changed(block);
    evictables.recount(block);
  }

  /** The search for the next block to leave. */
  public VictimSearch victims() {
    return victims;
  }

  /**
   * Empties the regions that drain as far as possible, and gives up those in which clients hold
   * blocks.
   */
  public void drain(IntConsumer evict) {
    draining.drain(evict);
  }

  /**
   * Empties the region of one part that drains, as far as possible.
   *
   * @return whether the region is empty now: it takes blocks of any size, and no block must leave
   */
  public boolean drain(int part, IntConsumer evict) {
    return draining.drain(part, evict);
  }

  /**
   * Whether a reader of a host copy must verify it: another session could have written to the slot
   * since the checksum was made, or the checksum was made before this daemon started.
   */
  public boolean mustVerify(int block, long reader) {
    return copies.has(CopyTable.TAKEN_OVER, number, block)
        || slots.isWritableByOthers(slots.regionOf(slot(block)), reader);
  }

  /** Whether a slot of a size class may come free without an action of a client. */
  public boolean isRoomComing(int sizeClass) {
    int part = slots.partOfClass(sizeClass);
    // A region of another class can become empty. If the draining of a region was given up, the
    // next search for a victim chooses another region.
    boolean getsRegion = slots.regionsOfClass(sizeClass) == 0 && evictables.ofPart(part) > 0;
    return getsRegion
        || evictables.ofClass(sizeClass) > 0
        || slots.draining(part) != SlotAllocator.NONE;
  }

  // ---- numbers

  /** The copies of a part, from the first to leave to the last, as far as that is known. */
  public int[] inOrder(int part) {
    EvictionPolicy policy = policies.of(part);
    int[] blocks = new int[policy.size()];
    int[] count = {0};
    policy.forEach(block -> blocks[count[0]++] = block);
    return blocks;
  }

  public int resident() {
    return aside.size() + policies.size();
  }

  /** Resident blocks of a namespace. */
  public int residentOf(int namespaceId) {
    return namespaces.residentOf(namespaceId);
  }

  /** Slots that are neither free nor hold a resident block. */
  public int inFlight() {
    return slots.slotsTotal() - slots.slotsFree() - resident();
  }

  /** Checks that directory, slots and policy agree; for tests. */
  public void checkInvariants() {
    slots.checkInvariants();
    policies.checkInvariants();
    namespaces.checkInvariants(number);
    evictables.checkInvariants();
    int residents = 0;
    int used = 0;
    for (int block = 0; block < directory.highWater(); block++) {
      if (!directory.isUsed(block)) {
        continue;
      }
      residents += isResident(block) ? 1 : 0;
      int slot = slot(block);
      if (slot != Directory.NONE) {
        used++;
        if (slots.blockInSlot(slot) != block) {
          throw new IllegalStateException(
              "slot " + slot + " of block " + block + " in tier " + number + " is not its own");
        }
      }
    }
    if (residents != resident()) {
      throw new IllegalStateException(
          "tier " + number + ": the policy tracks " + resident() + " blocks of " + residents);
    }
    if (used + kept != slots.slotsTotal() - slots.slotsFree()) {
      throw new IllegalStateException(
          "tier " + number + ": slots in use are not those of the blocks");
    }
  }
}
