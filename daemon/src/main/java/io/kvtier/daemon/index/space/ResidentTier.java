package io.kvtier.daemon.index.space;

import io.kvtier.daemon.index.core.BlockEvents;
import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.CopyTable;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.policies.EvictionPolicies;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicy.Removal;
import io.kvtier.policies.EvictionPolicy.VictimFilter;
import io.kvtier.policies.WhatIf;
import io.kvtier.tiers.files.ByteSize;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.Arrays;
import java.util.List;
import java.util.function.IntConsumer;
import java.util.function.IntPredicate;
import java.util.function.IntUnaryOperator;
import java.util.function.LongUnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * One tier whose space this daemon owns: its slots, the copies in them, the order in which they
 * leave, and which of them could leave now. The policy names victims; this class knows which it may
 * name. Confined to the index.
 *
 * <p>A copy can leave when it is resident and nobody uses it: no transfer of the daemon's, no lease
 * and no pin of a client's (unless the block stands in the first tier as well).
 */
public final class ResidentTier {
  // How many blocks of a policy's order a search looks at for a block of the right size or place.
  private static final int WINDOW = 64;

  // How many held blocks one search reports to the policy.
  private static final int HELD_MAX = 1024;

  /** A region is sparse when at most one slot of this many is in use. */
  private static final int SPARSE_SHARE = 16;

  /** After this many evictions, a search for a victim also looks for a sparse region. */
  private static final int SPARSE_EVERY = 16;

  /** Maximum look budget that searches for blocks that are only in this tier may accumulate. */
  private static final int LOOKS_MAX = HELD_MAX;

  /** Looks that each such search adds to the budget. */
  private static final int LOOKS_EARNED = 64;

  private final int number;
  private final TierTraits traits;
  private final int headerBytes;
  private final Directory directory;
  private final CopyTable copies;
  private final SlotAllocator slots;
  private final IntUnaryOperator bytesOf;
  private final Rows rows;
  private final @Nullable BlockEvents events;
  private final IntUnaryOperator recordsOfPart;
  private final LongUnaryOperator heapLeft;
  private final int[] evictable;
  private final int[] held = new int[HELD_MAX];
  private final Aside aside;
  private final VictimFilter near = this::isNear;
  private final VictimFilter ofClass = this::isOfClass;
  private final VictimFilter ofClassAndLane = this::isOfClassAndLane;
  private final VictimFilter foreign = this::isForeign;
  private final VictimFilter sparseForeign = this::isSparseForeign;
  private final VictimFilter evictableOnlyHere = this::isEvictableOnlyHere;
  private final EvictionPolicy[] policies;
  private final int[] evictableOfPart;

  /** How many of the evictable copies are in no tier above, by part. */
  private final int[] onlyHereOfPart;

  private final int[] looksOfPart;

  /** Whether the last search found nothing: the next one waits until the look budget is full. */
  private final boolean[] isSaving;

  private String policyName;
  private int[] residentOf = new int[64];
  private int[] classOf = new int[64];
  private int leftSinceLook;
  private int heldCount;
  private int refusals;
  private int soughtClass;
  private long soughtFor;
  private boolean mayDoubt;
  private int soughtLane;
  private final boolean[] drainMayGoOn;

  /** The rows of a tier's ledger, by which a later start finds its copies. */
  public interface Rows {
    /** For a tier that does not outlive the daemon, or whose rows a pipeline writes. */
    Rows NONE =
        new Rows() {
          @Override
          public void added(int block) {}

          @Override
          public void removed(int block) {}
        };

    /** A copy is in its slot. */
    void added(int block);

    /** A copy leaves its slot. It still has the slot, and its row may never have been added. */
    void removed(int block);
  }

  /**
   * What all tiers share.
   *
   * @param bytesOf the length of a block
   * @param events told of what comes and goes; null for nobody
   * @param recordsOfPart the most blocks that a part can have, whatever its slots
   * @param heapLeft takes the bytes that are wanted, and returns the bytes of Java heap left
   */
  public record Common(
      Directory directory,
      IntUnaryOperator bytesOf,
      @Nullable BlockEvents events,
      IntUnaryOperator recordsOfPart,
      LongUnaryOperator heapLeft) {}

  /** What a part's policy is made for. */
  private record PolicySize(int ids, int capacity) {}

  /**
   * An empty tier.
   *
   * @param number its place in the order of tiers; the first is 0
   * @param headerBytes what a slot holds before the block
   * @param policyName an eviction policy's specification
   */
  public ResidentTier(
      int number,
      TierTraits traits,
      Common common,
      SlotAllocator slots,
      int headerBytes,
      String policyName,
      Rows rows) {
    this.number = number;
    this.traits = traits;
    this.headerBytes = headerBytes;
    this.directory = common.directory();
    copies = directory.copies();
    this.slots = slots;
    this.policyName = policyName;
    this.bytesOf = common.bytesOf();
    this.rows = rows;
    this.events = common.events();
    this.recordsOfPart = common.recordsOfPart();
    this.heapLeft = common.heapLeft();
    evictable = new int[slots.classesMax()];
    evictableOfPart = new int[slots.parts()];
    onlyHereOfPart = new int[slots.parts()];
    looksOfPart = new int[slots.parts()];
    isSaving = new boolean[slots.parts()];
    Arrays.fill(looksOfPart, LOOKS_MAX);
    drainMayGoOn = new boolean[slots.parts()];
    aside = new Aside(number, copies, slots, new AsideOrder());
    policies = newPolicies(policyName);
  }

  /**
   * Has the copies on a fenced device set aside where they are in the way: to evict them makes no
   * room, and when all others have been turned over once they are all that a search meets.
   *
   * @param fenced says it of a lane
   */
  public void setAsideOn(IntPredicate fenced) {
    aside.setOn(fenced);
  }

  /** One policy for each part of the tier: a block competes with blocks of its own part only. */
  private EvictionPolicy[] newPolicies(String name) {
    EvictionPolicy[] made = new EvictionPolicy[slots.parts()];
    for (int part = 0; part < made.length; part++) {
      PolicySize size = policySize(part);
      made[part] = EvictionPolicies.create(name, size.ids(), size.capacity());
    }
    return made;
  }

  /** A part without regions never has a block; the others' blocks can have any number. */
  private PolicySize policySize(int part) {
    int regions = slots.regionsOfPart(part);
    int ids = regions == 0 ? 1 : directory.blocksMax();
    long slotsMax = slots.slotsMax() / Math.max(1, slots.regions()) * regions;
    return new PolicySize(
        ids, Math.clamp(Math.min(slotsMax, recordsOfPart.applyAsInt(part)), 1, ids));
  }

  /** The policy of a block that has a slot. */
  private EvictionPolicy policyOf(int block) {
    return policies.length == 1 ? policies[0] : policies[slots.partOf(slots.regionOf(slot(block)))];
  }

  /** The most blocks that the tier could hold. */
  public int blocksMax() {
    return Math.clamp(slots.slotsMax(), 1, directory.blocksMax());
  }

  /** What the policy knows of tiers of other sizes; empty when it does not simulate any. */
  public List<WhatIf> whatIf() {
    // What other sizes would do is asked of the whole tier.
    return policies.length == 1 ? policies[0].whatIf() : List.of();
  }

  public SlotAllocator slots() {
    return slots;
  }

  /** The tier's place in the order of tiers; the first is 0. */
  public int number() {
    return number;
  }

  /** How the tier is called outside. */
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
    return hasSpaceFor(tenant)
        ? slots.sizeClass(tenant, headerBytes + blockBytes)
        : SlotAllocator.NONE;
  }

  /** The longest block that the tier could take; no bound where it has no space. */
  public long blockBytesMax() {
    return isConfigured() ? slots.regionBytes() - headerBytes : Long.MAX_VALUE;
  }

  /** The bytes for a block in the slot of one. */
  public int payloadBytes(int block) {
    return slots.slotBytes(slots.classOf(slot(block))) - headerBytes;
  }

  /** A namespace has got a number. */
  public void open(Namespaces.Namespace namespace) {
    if (namespace.id() >= classOf.length) {
      classOf = Arrays.copyOf(classOf, Math.max(2 * classOf.length, namespace.id() + 1));
    }
    classOf[namespace.id()] = sizeClass(namespace.tenant(), namespace.blockBytes());
  }

  /** The size class of a namespace's blocks; NONE when they can't be here. */
  public int classFor(int namespaceId) {
    return classOf[namespaceId];
  }

  /** Whether a block can be here at all. */
  public boolean takes(int block) {
    return classOf[directory.namespaceId(block)] != SlotAllocator.NONE;
  }

  /** The size class of a block; NONE when it can't be here. */
  public int sizeClass(int block) {
    return classOf[directory.namespaceId(block)];
  }

  public String policyName() {
    return policyName;
  }

  /** All memory of the policy, in bytes. */
  public long policyBytes() {
    long bytes = 0;
    for (EvictionPolicy policy : policies) {
      bytes += policy.metadataBytes();
    }
    return bytes;
  }

  /**
   * Another policy takes over, and is told of the blocks in the order in which they would have
   * left. Nothing else changes.
   *
   * @throws IllegalArgumentException when there is no such policy, or no memory for it: nothing has
   *     changed then
   */
  public void swapPolicy(String name) {
    requireMemory(name);
    EvictionPolicy[] next = newPolicies(name);
    for (int part = 0; part < next.length; part++) {
      EvictionPolicy into = next[part];
      policies[part].forEach(block -> insert(into, block));
      into.onHandedOver();
    }
    System.arraycopy(next, 0, policies, 0, next.length);
    // Another order: what stood in the way of the last search does so no longer.
    Arrays.fill(isSaving, false);
    policyName = name;
  }

  /** All copies that an earlier daemon left were adopted. */
  public void recovered() {
    for (EvictionPolicy policy : policies) {
      policy.onHandedOver();
    }
  }

  /** Both policies take memory until the blocks have moved; without heap, the daemon would end. */
  private void requireMemory(String name) {
    long needed =
        IntStream.range(0, policies.length)
            .mapToObj(this::policySize)
            .collect(Collectors.groupingBy(PolicySize::ids))
            .entrySet()
            .stream()
            .mapToLong(sizes ->
                EvictionPolicies.estimateBytes(
                    name,
                    sizes.getKey(),
                    sizes.getValue().stream().mapToInt(PolicySize::capacity).toArray()))
            .sum();
    long left = heapLeft.applyAsLong(needed);
    if (needed > left) {
      throw new IllegalArgumentException(
          "policy "
              + name
              + " takes "
              + ByteSize.words(needed)
              + " beside the one there is, and the Java heap has "
              + ByteSize.words(left)
              + " left: start the daemon with more (KVTIERD_JAVA_OPTS=-Xmx...), or with fewer"
              + " limits.blocks");
    }
  }

  private void insert(EvictionPolicy into, int block) {
    into.onInsert(
        block,
        bytesOf.applyAsInt(block),
        directory.fingerprint(block),
        directory.depth(block),
        directory.parent(block));
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
    return state(block) == CopyState.RESIDENT;
  }

  public int slot(int block) {
    return copies.slot(number, block);
  }

  /**
   * Takes a slot for a block.
   *
   * @param session who will write it, or {@link SlotAllocator#DAEMON}
   * @param mayTake whether a region granted to another session may be taken over
   * @param mayDoubt whether a slot will do that somebody may still write who has lost it
   * @return false when there is none
   */
  public boolean allocate(
      int block, int sizeClass, long session, boolean mayTake, boolean mayDoubt) {
    int slot = slots.allocate(sizeClass, session, mayTake, mayDoubt, block);
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
  }

  /** The checksum of a copy is that of its bytes. */
  public void trust(int block) {
    copies.set(CopyTable.TAKEN_OVER, number, block, false);
  }

  /** Nobody has made the checksum of a copy that an earlier daemon left. */
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
    countResident(block, 1);
    rows.added(block);
    tellStored(block);
  }

  /**
   * Whether the block before a block in its sequence was here, and has gone: from memory, or from
   * all tiers. What memory lacks is found on SSD, but blocks that are to be found one behind the
   * other there are better there, too, than what is whole in memory.
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

  /** A block has got its annotation, and may be there already: then it is written down with it. */
  public void annotated(int block) {
    if (isResident(block)) {
      rows.added(block);
      tellStored(block);
    }
  }

  /** An adopted copy is there for everybody; its row is written already. */
  public void showAdopted(int block) {
    distrust(block);
    setState(block, CopyState.RESIDENT);
    insert(policyOf(block), block);
    countResident(block, 1);
  }

  /** Gives up a copy that did not come to be; a row of it may have been written. */
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
        countResident(block, -1);
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

  /** Drops an evictable copy to make room. */
  public void evict(int block) {
    leftSinceLook++;
    takeOut(block, Removal.EVICTED);
    countResident(block, -1);
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

  /** The policies, as what is set aside leaves them and comes back to them. */
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

  /** Copies on devices that are no longer fenced come back, some a round, as the newest. */
  public void returnAside() {
    aside.comeBack();
  }

  // ---- victims

  public boolean isEvictable(int block) {
    return isResident(block)
        && !aside.has(block)
        && directory.uses(block) == 0
        && (directory.holds(block) == 0
            || (number > 0 && copies.state(0, block) == CopyState.RESIDENT));
  }

  private boolean isOfClass(int block) {
    int slot = slot(block);
    if (slots.classOf(slot) != soughtClass || (!mayDoubt && slots.isDoubtful(slot))) {
      return false;
    }
    if (!slots.isOpen(slots.regionOf(slot))) {
      return aside.isOneTooMany(block, slots.regionOf(slot));
    }
    if (!isEvictable(block) && directory.uses(block) == 0 && heldCount < held.length) {
      held[heldCount++] = block;
    }
    return isEvictable(block);
  }

  private boolean isNear(int block) {
    long granted = slots.grantedTo(slots.regionOf(slot(block)));
    return (granted == soughtFor || granted == SlotAllocator.DAEMON) && isOfClass(block);
  }

  private boolean isOfClassAndLane(int block) {
    int slot = slot(block);
    return slots.classOf(slot) == soughtClass
        && slots.laneOf(slots.regionOf(slot)) == soughtLane
        && isEvictable(block);
  }

  private boolean isForeign(int block) {
    int slot = slot(block);
    return slots.classOf(slot) != soughtClass
        && slots.isOpen(slots.regionOf(slot))
        && isEvictable(block);
  }

  private boolean isSparseForeign(int block) {
    int region = slots.regionOf(slot(block));
    return slots.usedOf(region) * SPARSE_SHARE <= slots.slotsOf(region) && isForeign(block);
  }

  /** Counts a block among those that could leave, or no longer; called after every change of it. */
  public void recount(int block) {
    boolean could = isEvictable(block);
    if (slots.isDraining()) {
      // Whatever happened to a block in it: the drain goes on, or is given up.
      int slot = slot(block);
      int part = slot == Directory.NONE ? 0 : slots.partOf(slots.regionOf(slot));
      drainMayGoOn[part] |= slot != Directory.NONE && slots.regionOf(slot) == slots.draining(part);
    }
    if (could != copies.has(CopyTable.EVICTABLE, number, block)) {
      copies.set(CopyTable.EVICTABLE, number, block, could);
      int sizeClass = slots.classOf(slot(block));
      evictable[sizeClass] += could ? 1 : -1;
      evictableOfPart[slots.partOfClass(sizeClass)] += could ? 1 : -1;
    }
    boolean isOnlyHere = could && isOnlyHere(block);
    if (isOnlyHere != isCountedOnlyHere(block)) {
      copies.set(CopyTable.ONLY_HERE, number, block, isOnlyHere);
      int part = slots.partOfClass(slots.classOf(slot(block)));
      // What the last search was in vain for: there was none.
      isSaving[part] &= onlyHereOfPart[part] > 0;
      onlyHereOfPart[part] += isOnlyHere ? 1 : -1;
    }
  }

  private boolean isOnlyHere(int block) {
    return number > 0 && !copies.isElsewhere(number, block);
  }

  private boolean isCountedOnlyHere(int block) {
    return number > 0 && copies.has(CopyTable.ONLY_HERE, number, block);
  }

  /**
   * The next block of a size class to leave. Where every block that is about to go is of another
   * class, that one's memory belongs to this one now: a region of it begins to drain. So does one
   * of which only a few slots are in use, by blocks that are about to go.
   *
   * @param session whose slabs are looked through first
   * @param inFlight transfers under way, whose blocks stand in the way at the cold end
   * @param ofAnySlot whether one in a doubtful slot will do
   * @return the block, or {@link EvictionPolicy#NONE}
   */
  public int victim(int sizeClass, long session, int inFlight, boolean ofAnySlot) {
    mayDoubt = ofAnySlot;
    soughtClass = sizeClass;
    soughtFor = session;
    heldCount = 0;
    int part = slots.partOfClass(sizeClass);
    EvictionPolicy policy = policies[part];
    int looks = WINDOW + inFlight;
    int victim = EvictionPolicy.NONE;
    if (evictable[sizeClass] > 0) {
      victim = session == SlotAllocator.DAEMON ? victim : policy.victim(near, looks);
      victim = victim == EvictionPolicy.NONE ? policy.victim(ofClass, looks) : victim;
    }
    if (victim == EvictionPolicy.NONE) {
      drain(part, foreign, slots.regionsOfClass(sizeClass) == 0 ? Integer.MAX_VALUE : looks);
      if (evictable[sizeClass] > 0) {
        victim = policy.victim(ofClass, Integer.MAX_VALUE);
      }
    }
    passHeld(policy);
    if (victim != EvictionPolicy.NONE && !slots.isOpen(slots.regionOf(slot(victim)))) {
      victim = EvictionPolicy.NONE;
    }
    aside.takeBarred();
    if (victim != EvictionPolicy.NONE && leftSinceLook >= SPARSE_EVERY) {
      leftSinceLook = 0;
      drain(part, sparseForeign, WINDOW);
    }
    return victim;
  }

  /**
   * The next block of a size class to leave after another of its lane, near the cold end. The lane
   * need not be open: what has left it may be why it is not.
   */
  public int victimBeside(int sizeClass, int lane, int inFlight) {
    soughtClass = sizeClass;
    soughtLane = lane;
    EvictionPolicy policy = policies[slots.partOfClass(sizeClass)];
    return policy.victim(ofClassAndLane, WINDOW + inFlight);
  }

  /** What a search found in its way at the cold end is not cold: else every one would meet it. */
  private void passHeld(EvictionPolicy policy) {
    for (int i = 0; i < heldCount; i++) {
      policy.onPassed(held[i]);
    }
    heldCount = 0;
  }

  private void drain(int part, VictimFilter ofOthers, int looks) {
    if (slots.draining(part) == SlotAllocator.NONE
        && evictableOfPart[part] > evictable[soughtClass]) {
      int other = policies[part].victim(ofOthers, looks);
      if (other != EvictionPolicy.NONE) {
        drainRegionOf(other);
      }
    }
  }

  /**
   * The next block of a part to leave, near the cold end, among those that stand in this tier only.
   * One that stands above as well is used there, and this tier's policy does not hear of it: so it
   * is found here at the cold end, and is not cold. Where many are, most searches are given up, for
   * each of them could be as long.
   */
  public int victimOnlyHere(int part) {
    int looks = Math.min(LOOKS_MAX, looksOfPart[part] + LOOKS_EARNED);
    looksOfPart[part] = looks;
    if (onlyHereOfPart[part] == 0 || (isSaving[part] && looks < LOOKS_MAX)) {
      return EvictionPolicy.NONE;
    }
    heldCount = 0;
    refusals = 0;
    EvictionPolicy policy = policies[part];
    int victim = policy.victim(evictableOnlyHere, looks);
    looksOfPart[part] = Math.max(0, looks - refusals);
    isSaving[part] = victim == EvictionPolicy.NONE;
    passHeld(policy);
    return victim;
  }

  private boolean isEvictableOnlyHere(int block) {
    boolean accepted = isCountedOnlyHere(block);
    if (!accepted) {
      refusals++;
      if (!isOnlyHere(block) && heldCount < held.length) {
        held[heldCount++] = block;
      }
    }
    return accepted;
  }

  /** The next block of a part to leave among those that a filter accepts, near the cold end. */
  public int victim(int part, VictimFilter filter) {
    return policies[part].victim(filter, WINDOW);
  }

  // ---- draining

  private void drainRegionOf(int block) {
    int region = slots.regionOf(slot(block));
    int part = slots.partOf(region);
    // A region that a client holds a block in would never be empty. Of others one goes that costs
    // far fewer bytes.
    boolean mayGo = !hasHeld(region);
    long least = mayGo ? bytesUsedOf(region) / 2 : Long.MAX_VALUE;
    int chosen = mayGo ? region : SlotAllocator.NONE;
    for (int i = 0; i < slots.regions(); i++) {
      int sizeClass = slots.classOfRegion(i);
      if (sizeClass != SlotAllocator.NONE
          && slots.partOf(i) == part
          && sizeClass != soughtClass
          && slots.isOpen(i)
          && bytesUsedOf(i) < least
          && !hasHeld(i)) {
        chosen = i;
        least = bytesUsedOf(i);
      }
    }
    if (chosen != SlotAllocator.NONE) {
      slots.drain(chosen);
      drainMayGoOn[part] = true;
    }
  }

  private long bytesUsedOf(int region) {
    return (long) slots.usedOf(region) * slots.slotBytes(slots.classOfRegion(region));
  }

  private boolean hasHeld(int region) {
    int count = slots.slotsOf(region);
    for (int i = 0; i < count; i++) {
      int block = slots.blockAt(region, i);
      if (block != SlotAllocator.NONE && directory.holds(block) > 0) {
        return true;
      }
    }
    return false;
  }

  /** Empties the regions that drain, as far as that goes; gives up those that clients keep. */
  public void drain(IntConsumer evict) {
    for (int part = 0; part < drainMayGoOn.length; part++) {
      var _ = drain(part, evict);
    }
  }

  /**
   * The same of one part.
   *
   * @return whether its region is empty now: there is room for any size, and no block has to go
   */
  public boolean drain(int part, IntConsumer evict) {
    return drainMayGoOn[part]
        && slots.draining(part) != SlotAllocator.NONE
        && emptyDraining(part, evict);
  }

  private boolean emptyDraining(int part, IntConsumer evict) {
    int region = slots.draining(part);
    drainMayGoOn[part] = false;
    boolean isMoving = false;
    int count = slots.slotsOf(region);
    for (int i = 0; i < count && slots.draining(part) == region; i++) {
      int block = slots.blockAt(region, i);
      if (block == SlotAllocator.NONE) {
        continue;
      }
      if (isEvictable(block)) {
        evict.accept(block);
      }
      isMoving |= slots.blockAt(region, i) != block || directory.uses(block) > 0;
      drainMayGoOn[part] |= slots.blockAt(region, i) == block && isEvictable(block);
    }
    if (slots.draining(part) == region && !isMoving && !drainMayGoOn[part]) {
      slots.undrain(part);
    }
    return slots.classOfRegion(region) == SlotAllocator.NONE;
  }

  /**
   * Whether a reader of a host copy must verify it: another session could have written to the slot
   * since the checksum was made, or the checksum was made before this daemon started.
   */
  public boolean mustVerify(int block, long reader) {
    return copies.has(CopyTable.TAKEN_OVER, number, block)
        || slots.isWritableByOthers(slots.regionOf(slot(block)), reader);
  }

  /** Whether room of a size class may come without anybody's doing. */
  public boolean isRoomComing(int sizeClass) {
    return evictable[sizeClass] > 0
        || slots.draining(slots.partOfClass(sizeClass)) != SlotAllocator.NONE;
  }

  // ---- numbers

  public int resident() {
    int resident = aside.size();
    for (EvictionPolicy policy : policies) {
      resident += policy.size();
    }
    return resident;
  }

  /** Resident blocks of a namespace. */
  public int residentOf(int namespaceId) {
    return namespaceId < residentOf.length ? residentOf[namespaceId] : 0;
  }

  private void countResident(int block, int more) {
    int namespaceId = directory.namespaceId(block);
    if (namespaceId >= residentOf.length) {
      residentOf = Arrays.copyOf(residentOf, 2 * namespaceId);
    }
    residentOf[namespaceId] += more;
  }

  /** Slots that are neither free nor hold a resident block. */
  public int inFlight() {
    return slots.slotsTotal() - slots.slotsFree() - resident();
  }

  /** Checks that directory, slots and policy agree; for tests. */
  public void checkInvariants() {
    slots.checkInvariants();
    for (EvictionPolicy policy : policies) {
      policy.checkInvariants();
    }
    int[] counts = new int[CopyState.values().length];
    int used = 0;
    int[] couldLeave = new int[slots.classesMax()];
    int[] onlyHere = new int[slots.parts()];
    int[] residents = new int[residentOf.length];
    for (int block = 0; block < directory.highWater(); block++) {
      if (!directory.isUsed(block)) {
        continue;
      }
      counts[state(block).code()]++;
      if (isResident(block)) {
        residents[directory.namespaceId(block)]++;
      }
      int slot = slot(block);
      if (slot != Directory.NONE) {
        used++;
        if (slots.blockInSlot(slot) != block) {
          throw new IllegalStateException(
              "slot " + slot + " of block " + block + " in tier " + number + " is not its own");
        }
        couldLeave[slots.classOf(slot)] += isEvictable(block) ? 1 : 0;
        onlyHere[slots.partOf(slots.regionOf(slot))] +=
            isEvictable(block) && isOnlyHere(block) ? 1 : 0;
      }
    }
    if (counts[CopyState.RESIDENT.code()] != resident()) {
      throw new IllegalStateException(
          "tier "
              + number
              + ": the policy tracks "
              + resident()
              + " blocks, states are "
              + Arrays.toString(counts));
    }
    if (used != slots.slotsTotal() - slots.slotsFree()) {
      throw new IllegalStateException(
          "tier " + number + ": slots in use are not those of the blocks");
    }
    if (!Arrays.equals(residents, residentOf)) {
      throw new IllegalStateException("tier " + number + " miscounts the blocks of namespaces");
    }
    if (!Arrays.equals(couldLeave, evictable) || !Arrays.equals(onlyHere, onlyHereOfPart)) {
      throw new IllegalStateException("tier " + number + " miscounts the blocks that could leave");
    }
  }
}
