package io.kvtier.daemon.index.space;

import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.Arrays;

/**
 * The namespaces of blocks in a tier: the size class of their slots, raw and encoded, and the
 * counts of their resident blocks. Confined to the index.
 */
final class TierNamespaces {
  private final Directory directory;
  private final SlotAllocator slots;
  private final int headerBytes;
  private int[] classOf = new int[64];
  private int[] encodedClassOf = new int[64];
  private int[] residentOf = new int[64];

  /**
   * Without a namespace.
   *
   * @param headerBytes the bytes of a slot before the block
   */
  TierNamespaces(Directory directory, SlotAllocator slots, int headerBytes) {
    this.directory = directory;
    this.slots = slots;
    this.headerBytes = headerBytes;
  }

  /** The size class of a tenant's blocks of that many bytes; NONE when they can't be here. */
  int sizeClass(int tenant, long blockBytes) {
    return slots.regionsOfPart(tenant) > 0
        ? slots.sizeClass(tenant, headerBytes + blockBytes)
        : SlotAllocator.NONE;
  }

  /** Notes the size classes of a new namespace's blocks. */
  void open(Namespaces.Namespace namespace) {
    if (namespace.id() >= classOf.length) {
      int length = Math.max(2 * classOf.length, namespace.id() + 1);
      classOf = Arrays.copyOf(classOf, length);
      encodedClassOf = Arrays.copyOf(encodedClassOf, length);
    }
    classOf[namespace.id()] = sizeClass(namespace.tenant(), namespace.storedBytes(false));
    encodedClassOf[namespace.id()] = sizeClass(namespace.tenant(), namespace.storedBytes(true));
  }

  /**
   * The size class of a namespace's blocks in one of their forms; NONE when they can't be here.
   * Where blocks have one form, both forms have equal classes.
   */
  int classFor(int namespaceId, boolean isEncoded) {
    return (isEncoded ? encodedClassOf : classOf)[namespaceId];
  }

  /** The size class of a block; NONE when it can't be here. */
  int classOf(int block) {
    return classFor(directory.namespaceId(block), directory.has(Directory.FLAG_ENCODED, block));
  }

  /** A block has become resident, or is no longer. */
  void countResident(int block, int more) {
    int namespaceId = directory.namespaceId(block);
    if (namespaceId >= residentOf.length) {
      residentOf = Arrays.copyOf(residentOf, 2 * namespaceId);
    }
    residentOf[namespaceId] += more;
  }

  /** Resident blocks of a namespace. */
  int residentOf(int namespaceId) {
    return namespaceId < residentOf.length ? residentOf[namespaceId] : 0;
  }

  /** Checks the counts against the copies of the tier; for tests. */
  void checkInvariants(int tier) {
    int[] counted = new int[residentOf.length];
    for (int block = 0; block < directory.highWater(); block++) {
      if (directory.isUsed(block) && directory.copies().isResident(tier, block)) {
        counted[directory.namespaceId(block)]++;
      }
    }
    if (!Arrays.equals(counted, residentOf)) {
      throw new IllegalStateException("tier " + tier + " miscounts the blocks of namespaces");
    }
  }
}
