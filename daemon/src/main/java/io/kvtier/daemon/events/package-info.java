/**
 * What routers hear of: which blocks are in which tier, in the format of vLLM's KV events. Reads
 * what the index tells, on a thread of its own, and holds no cache state.
 */
@NullMarked
package io.kvtier.daemon.events;

import org.jspecify.annotations.NullMarked;
