package io.kvtier.daemon.index.source;

import io.kvtier.daemon.index.core.OperatorAnswer;
import io.kvtier.tiers.object.Deletions;
import io.kvtier.tiers.object.ObjectKey;
import io.kvtier.tiers.object.PresenceCache;
import io.kvtier.tiers.transfer.Pipeline;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The parts of the object tier that the index uses.
 *
 * @param admission which blocks are stored, and when
 * @param spillBytes memory for blocks on their way from a lower tier
 * @param operator does what an operator wants done with the store
 * @param report the tier for people: names with texts, numbers, truths and a janitor's report
 * @param bell wakes the index
 */
public record ObjectParts(
    Traffic traffic,
    Contents contents,
    String admission,
    long spillBytes,
    Operator operator,
    Supplier<Map<String, Object>> report,
    Runnable bell) {
  /**
   * How objects are loaded and stored.
   *
   * @param pipeline loads and stores objects
   * @param depth the most transfers that the pipeline takes
   * @param isOpen whether a load would be tried now, or the store is given a rest
   * @param takesStores whether a store would be tried now
   */
  public record Traffic(
      Pipeline pipeline, int depth, BooleanSupplier isOpen, BooleanSupplier takesStores) {}

  /**
   * What is in the store.
   *
   * @param presence the objects that are known to exist
   * @param deletions the queue of deletions
   * @param collected names of objects that this node deletes and that the index did not name: those
   *     that are collected, a page at a time, before they are and after, and those that the
   *     deletion of a whole namespace found; null when there are none for now
   * @param uses told what is used; null for nobody
   */
  public record Contents(
      PresenceCache presence,
      Deletions deletions,
      Supplier<@Nullable List<String>> collected,
      @Nullable Consumer<ObjectKey> uses) {}

  /** Does what an operator wants done with the store. */
  @FunctionalInterface
  public interface Operator {
    /**
     * Begins something; at once.
     *
     * @throws IllegalArgumentException saying what is wrong with the words
     */
    OperatorAnswer run(List<String> words);
  }
}
