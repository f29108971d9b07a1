package io.kvtier.policies;

import java.util.BitSet;
import java.util.List;

/**
 * A plug-in's policy. A victim must be a block that the policy tracks and that the filter accepts:
 * a client may be reading any other block. Any other victim, and whatever the policy throws, ends
 * in an {@link IllegalStateException} that names the policy.
 */
final class WatchedPolicy implements EvictionPolicy {
  private final String name;
  private final EvictionPolicy policy;
  private final VictimFilter watched = this::accepts;
  private VictimFilter asked = _ -> false;
  private int accepted = NONE;

  /** The blocks that were inserted and not removed. */
  private final BitSet tracked;

  private final int blocksMax;

  WatchedPolicy(String name, EvictionPolicy policy, int blocksMax) {
    this.name = name;
    this.policy = policy;
    this.blocksMax = blocksMax;
    tracked = new BitSet(blocksMax);
  }

  private boolean accepts(int block) {
    boolean accepts = tracked.get(block) && asked.accepts(block);
    accepted = accepts ? block : accepted;
    return accepts;
  }

  private IllegalStateException failure(String call, Throwable cause) {
    return new IllegalStateException(
        "the plug-in's eviction policy '" + name + "' failed in " + call + ": " + cause, cause);
  }

  @Override
  public void onInsert(int block, int bytes, long fingerprint, int depth, long parent) {
    tracked.set(block);
    try {
      policy.onInsert(block, bytes, fingerprint, depth, parent);
    } catch (RuntimeException | LinkageError e) {
      throw failure("onInsert", e);
    }
  }

  @Override
  public void onImportance(int block, int importance) {
    try {
      policy.onImportance(block, importance);
    } catch (RuntimeException | LinkageError e) {
      throw failure("onImportance", e);
    }
  }

  @Override
  public void onHandedOver() {
    try {
      policy.onHandedOver();
    } catch (RuntimeException | LinkageError e) {
      throw failure("onHandedOver", e);
    }
  }

  @Override
  public void onParentMissing(int block) {
    try {
      policy.onParentMissing(block);
    } catch (RuntimeException | LinkageError e) {
      throw failure("onParentMissing", e);
    }
  }

  @Override
  public void onHit(int block) {
    try {
      policy.onHit(block);
    } catch (RuntimeException | LinkageError e) {
      throw failure("onHit", e);
    }
  }

  @Override
  public void onPassed(int block) {
    try {
      policy.onPassed(block);
    } catch (RuntimeException | LinkageError e) {
      throw failure("onPassed", e);
    }
  }

  @Override
  public void onRemove(int block, Removal why) {
    tracked.clear(block);
    try {
      policy.onRemove(block, why);
    } catch (RuntimeException | LinkageError e) {
      throw failure("onRemove", e);
    }
  }

  @Override
  public int victim(VictimFilter filter, int looksMax) {
    asked = filter;
    accepted = NONE;
    int victim;
    try {
      victim = policy.victim(watched, looksMax);
    } catch (RuntimeException | LinkageError e) {
      throw failure("victim", e);
    }
    if (victim != NONE && victim != accepted && !mayLeave(victim)) {
      throw new IllegalStateException(
          "the plug-in's eviction policy '"
              + name
              + "' named block "
              + victim
              + " as a victim; expected a block that the filter accepts");
    }
    return victim;
  }

  /** A policy may compare several blocks that are accepted, and name any of them. */
  private boolean mayLeave(int victim) {
    return victim >= 0 && accepts(victim);
  }

  @Override
  public int size() {
    try {
      return policy.size();
    } catch (RuntimeException | LinkageError e) {
      throw failure("size", e);
    }
  }

  @Override
  public void forEach(BlockVisitor visitor) {
    try {
      policy.forEach(visitor);
    } catch (RuntimeException | LinkageError e) {
      throw failure("forEach", e);
    }
  }

  @Override
  public List<WhatIf> whatIf() {
    try {
      return List.copyOf(policy.whatIf());
    } catch (RuntimeException | LinkageError e) {
      throw failure("whatIf", e);
    }
  }

  @Override
  public long metadataBytes() {
    try {
      return policy.metadataBytes() + blocksMax / Byte.SIZE;
    } catch (RuntimeException | LinkageError e) {
      throw failure("metadataBytes", e);
    }
  }

  @Override
  public void checkInvariants() {
    policy.checkInvariants();
  }
}
