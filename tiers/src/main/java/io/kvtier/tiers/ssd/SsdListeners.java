package io.kvtier.tiers.ssd;

import io.kvtier.tiers.transfer.TroubleLog;
import java.util.function.Consumer;

/**
 * The listeners of an SSD pipeline.
 *
 * @param finishedBell wakes the collecting thread; called after one transfer or several
 * @param troubles told of failures
 * @param defect told of what should never happen: transfers will not come back
 */
public record SsdListeners(
    Runnable finishedBell, TroubleLog troubles, Consumer<Throwable> defect) {}
