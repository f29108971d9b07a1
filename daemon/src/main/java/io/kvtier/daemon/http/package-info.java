/**
 * HTTP for operators: whether the daemon is well, its metrics, and its state as JSON. An adapter:
 * it asks the index as a client does, at most four times a second however many ask here, and reads
 * counters straight from the daemon's memory. One event loop of its own does all of it.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.http;
