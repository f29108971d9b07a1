package io.kvtier.daemon.index.space;

import io.kvtier.policies.EvictionPolicies;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.WhatIf;
import io.kvtier.policies.eviction.CurvePolicy;
import io.kvtier.policies.eviction.ImportancePolicy;
import io.kvtier.tiers.files.ByteSize;
import io.kvtier.tiers.slots.SlotAllocator;
import java.util.List;
import java.util.function.IntUnaryOperator;
import java.util.function.LongUnaryOperator;
import java.util.function.ObjIntConsumer;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * The eviction policies of a tier, one for each part of it: a block competes with blocks of its own
 * part only. Confined to the index.
 */
final class TierPolicies {
  /** What a part's policy is made for. */
  private record PolicySize(int ids, int capacity) {}

  private final SlotAllocator slots;
  private final int blocksMax;
  private final IntUnaryOperator recordsOfPart;
  private final LongUnaryOperator heapLeft;
  private final EvictionPolicy[] policies;
  private String name;

  /**
   * Policies that know of no block.
   *
   * @param blocksMax the most records of blocks
   * @param name their specification
   */
  TierPolicies(
      SlotAllocator slots,
      int blocksMax,
      IntUnaryOperator recordsOfPart,
      LongUnaryOperator heapLeft,
      String name) {
    this.slots = slots;
    this.blocksMax = blocksMax;
    this.recordsOfPart = recordsOfPart;
    this.heapLeft = heapLeft;
    this.name = name;
    policies = newPolicies(name);
  }

  private EvictionPolicy[] newPolicies(String name) {
    EvictionPolicy[] made = new EvictionPolicy[slots.parts()];
    for (int part = 0; part < made.length; part++) {
      PolicySize size = policySize(part);
      EvictionPolicy policy =
          new ImportancePolicy(
              EvictionPolicies.create(name, size.ids(), size.capacity()), size.ids());
      // What other sizes would do is asked of the whole tier.
      made[part] =
          made.length == 1 && policy.whatIf().isEmpty()
              ? new CurvePolicy(policy, size.ids(), size.capacity())
              : policy;
    }
    return made;
  }

  /** A part without regions never has a block; the others' blocks can have any number. */
  private PolicySize policySize(int part) {
    int regions = slots.regionsOfPart(part);
    int ids = regions == 0 ? 1 : blocksMax;
    long slotsMax = slots.slotsMax() / Math.max(1, slots.regions()) * regions;
    return new PolicySize(
        ids, Math.clamp(Math.min(slotsMax, recordsOfPart.applyAsInt(part)), 1, ids));
  }

  /** The policy of a part. */
  EvictionPolicy of(int part) {
    return policies[part];
  }

  /** The policy of a slot's part. */
  EvictionPolicy ofSlot(int slot) {
    return policies.length == 1 ? policies[0] : policies[slots.partOf(slots.regionOf(slot))];
  }

  /** The specification. */
  String name() {
    return name;
  }

  /** What tiers of other sizes would have found; empty where there are tenants. */
  List<WhatIf> whatIf() {
    return policies.length == 1 ? policies[0].whatIf() : List.of();
  }

  /** All memory of the policies, in bytes. */
  long bytes() {
    long bytes = 0;
    for (EvictionPolicy policy : policies) {
      bytes += policy.metadataBytes();
    }
    return bytes;
  }

  /** How many blocks they know of. */
  int size() {
    int size = 0;
    for (EvictionPolicy policy : policies) {
      size += policy.size();
    }
    return size;
  }

  /** They have been told of all blocks, in the order in which they would leave. */
  void handedOver() {
    for (EvictionPolicy policy : policies) {
      policy.onHandedOver();
    }
  }

  /**
   * Others take over, and are told of the blocks in the order in which they would have left.
   *
   * @param insert tells a policy of a block
   * @throws IllegalArgumentException when there is no such policy, or no memory for it: nothing has
   *     changed then
   */
  void swap(String next, ObjIntConsumer<EvictionPolicy> insert) {
    requireMemory(next);
    EvictionPolicy[] made = newPolicies(next);
    for (int part = 0; part < made.length; part++) {
      EvictionPolicy into = made[part];
      policies[part].forEach(block -> insert.accept(into, block));
      into.onHandedOver();
    }
    System.arraycopy(made, 0, policies, 0, made.length);
    name = next;
  }

  /** Both policies take memory until the blocks have moved; without heap, the daemon would end. */
  private void requireMemory(String next) {
    long needed =
        IntStream.range(0, policies.length)
            .mapToObj(this::policySize)
            .collect(Collectors.groupingBy(PolicySize::ids))
            .entrySet()
            .stream()
            .mapToLong(sizes ->
                EvictionPolicies.estimateBytes(
                    next,
                    sizes.getKey(),
                    sizes.getValue().stream().mapToInt(PolicySize::capacity).toArray()))
            .sum();
    long left = heapLeft.applyAsLong(needed);
    if (needed > left) {
      throw new IllegalArgumentException(
          "policy "
              + next
              + " takes "
              + ByteSize.words(needed)
              + " beside the one there is, and the Java heap has "
              + ByteSize.words(left)
              + " left: start the daemon with more (KVTIERD_JAVA_OPTS=-Xmx...), or with fewer"
              + " limits.blocks");
    }
  }

  void checkInvariants() {
    for (EvictionPolicy policy : policies) {
      policy.checkInvariants();
    }
  }
}
