/**
 * Blocks over UCX, from the operator's own installation: RDMA where the network has it, else TCP or
 * shared memory. Only this package knows UCX.
 */
@NullMarked
package io.kvtier.tiers.node.ucx;

import org.jspecify.annotations.NullMarked;
