package io.kvtier.daemon.index.source;

import io.kvtier.daemon.index.core.OperatorCommands;
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
 * @param operator carries out operators' commands to the store
 * @param report the fields of the tier's report, by name: texts, numbers, truths and a janitor's
 *     report
 * @param bell wakes the index
 */
public record ObjectParts(
    Traffic traffic,
    Contents contents,
    String admission,
    long spillBytes,
    OperatorCommands operator,
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
   * The content of the store.
   *
   * @param presence the objects that are known to exist
   * @param deletions the queue of deletions
   * @param collected names of objects that this node deletes without an order for the single
   *     object: collected objects, a page at a time, before and after their deletion, and the
   *     objects of a deleted namespace; null when there are none for now
   * @param uses hears which objects are used; null when nobody listens
   */
  public record Contents(
      PresenceCache presence,
      Deletions deletions,
      Supplier<@Nullable List<String>> collected,
      @Nullable Consumer<ObjectKey> uses) {}
}
