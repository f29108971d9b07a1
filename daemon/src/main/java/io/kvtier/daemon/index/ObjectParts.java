package io.kvtier.daemon.index;

import io.kvtier.tiers.object.Deletions;
import io.kvtier.tiers.object.PresenceCache;
import io.kvtier.tiers.transfer.Pipeline;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/**
 * What the index needs of the object tier.
 *
 * @param pipeline loads and stores objects
 * @param depth the most transfers that it takes
 * @param isOpen whether a load would be tried now, or the store is given a rest
 * @param takesStores the same of a store
 * @param presence what is known to be there
 * @param deletions what is to go
 * @param admission which blocks are stored, and when
 * @param spillBytes memory for blocks on their way from SSD
 * @param bell wakes the index
 * @param report the tier for people: names with texts, numbers and truths
 */
public record ObjectParts(
    Pipeline pipeline,
    int depth,
    BooleanSupplier isOpen,
    BooleanSupplier takesStores,
    PresenceCache presence,
    Deletions deletions,
    String admission,
    long spillBytes,
    Runnable bell,
    Supplier<Map<String, Object>> report) {}
