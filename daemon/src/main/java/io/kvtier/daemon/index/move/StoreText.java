package io.kvtier.daemon.index.move;

import io.kvtier.daemon.index.core.ClassQueues;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.daemon.index.space.TierStack;
import io.kvtier.tiers.slots.SlotAllocator;

/** The tiers, and the blocks that are in use or held, in words: to look for a defect. */
final class StoreText {
  private final StringBuilder out = new StringBuilder(256);
  private final Directory directory;
  private final TierStack stack;

  StoreText(MoveParts parts, ClassQueues fresh) {
    directory = parts.core().directory();
    stack = parts.stack();
    SlotAllocator slots = stack.first().slots();
    for (int i = 0; i < slots.classes(); i++) {
      out.append("; class ").append(i).append(": regions ").append(slots.regionsOfClass(i));
      out.append(", free ").append(slots.freeOfClass(i));
      out.append(", leaving ").append(parts.mover().departures().evictions(i));
      out.append(", waiting ").append(fresh.waiting(i));
    }
    for (ResidentTier tier : stack.all()) {
      append(tier);
    }
    for (int block = 0; block < directory.highWater(); block++) {
      if (directory.isUsed(block) && (directory.uses(block) > 0 || directory.holds(block) > 0)) {
        append(block);
      }
    }
  }

  private void append(ResidentTier tier) {
    SlotAllocator of = tier.slots();
    out.append("; ").append(tier.traits().title()).append(": draining ").append(of.isDraining());
    for (int i = 0; i < of.classes(); i++) {
      out.append(", class ").append(i).append(": regions ").append(of.regionsOfClass(i));
      out.append(", free ").append(of.freeOfClass(i));
    }
  }

  private void append(int block) {
    out.append("; block ").append(block).append(" is");
    for (ResidentTier tier : stack.all()) {
      out.append(' ').append(tier.state(block));
    }
    out.append(", uses ").append(directory.uses(block));
    out.append(", holds ").append(directory.holds(block));
    out.append(", class ").append(stack.first().sizeClass(block));
  }

  @Override
  public String toString() {
    return out.toString();
  }
}
