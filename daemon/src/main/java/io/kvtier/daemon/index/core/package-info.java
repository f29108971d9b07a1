/**
 * What everything else in the index stands on: the {@link io.kvtier.daemon.index.core.Directory} of
 * blocks, the {@link io.kvtier.daemon.index.core.CopyTable} of their copies, namespaces, tenants,
 * limits, counters and queues. Uses nothing of the other packages of the index.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.index.core;
