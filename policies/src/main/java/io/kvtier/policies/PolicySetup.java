package io.kvtier.policies;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * What a policy is made from: how many blocks there can be, and the options of its specification.
 * Every option that is read is known; one that is given and never read is refused by {@link
 * EvictionPolicies#create}.
 */
public final class PolicySetup {
  private final int blocksMax;
  private final int capacityBlocks;
  private final String inner;
  private final Map<String, String> options;
  private final Set<String> read = new HashSet<>();
  private boolean innerUsed;

  PolicySetup(int blocksMax, int capacityBlocks, Map<String, String> options, String inner) {
    if (blocksMax < 1 || capacityBlocks < 1 || capacityBlocks > blocksMax) {
      throw new IllegalArgumentException(
          "a tier of " + capacityBlocks + " blocks with " + blocksMax + " ids");
    }
    this.blocksMax = blocksMax;
    this.capacityBlocks = capacityBlocks;
    this.options = new HashMap<>(options);
    this.inner = inner;
  }

  /** Ids run from 0 to this, exclusive. */
  public int blocksMax() {
    return blocksMax;
  }

  /** The most blocks that will be resident at once: what ghosts and sketches are sized by. */
  public int capacityBlocks() {
    return capacityBlocks;
  }

  /**
   * The policy that this one wraps.
   *
   * @param otherwise its specification where none is given
   */
  public EvictionPolicy inner(String otherwise) {
    innerUsed = true;
    return EvictionPolicies.create(inner.isEmpty() ? otherwise : inner, blocksMax, capacityBlocks);
  }

  /** A text option. */
  public String text(String name, String otherwise) {
    read.add(name);
    return options.getOrDefault(name, otherwise);
  }

  /** A number from {@code min} to {@code max}. */
  public double number(String name, double otherwise, double min, double max) {
    String text = text(name, "");
    if (text.isEmpty()) {
      return otherwise;
    }
    double value;
    try {
      value = Double.parseDouble(text);
    } catch (NumberFormatException e) {
      value = Double.NaN;
    }
    if (!(value >= min && value <= max)) {
      throw new IllegalArgumentException(
          "option " + name + " is '" + text + "', not a number from " + min + " to " + max);
    }
    return value;
  }

  /** A whole number from {@code min} to {@code max}. */
  public int count(String name, int otherwise, int min, int max) {
    double value = number(name, otherwise, min, max);
    if (value != Math.rint(value)) {
      throw new IllegalArgumentException(
          "option " + name + " is " + value + ", not a whole number");
    }
    return (int) value;
  }

  /** As {@link #inner(String)}, for admission. */
  public AdmissionPolicy innerAdmission(String otherwise) {
    innerUsed = true;
    return AdmissionPolicies.create(inner.isEmpty() ? otherwise : inner, capacityBlocks);
  }

  /** Refuses an option that was given and never read, and an inner policy never asked for. */
  void requireAllUsed(String policy) {
    for (String name : options.keySet()) {
      if (!read.contains(name)) {
        throw new IllegalArgumentException(
            "policy "
                + policy
                + " has no option '"
                + name
                + "'; it has "
                + (read.isEmpty() ? "none" : String.join(", ", new TreeSet<>(read))));
      }
    }
    if (!inner.isEmpty() && !innerUsed) {
      throw new IllegalArgumentException("policy " + policy + " wraps no other policy");
    }
  }
}
