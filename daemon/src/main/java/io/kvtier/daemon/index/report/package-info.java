/**
 * What the index tells others of itself: statistics, events of blocks, lines and spans of requests.
 * Reads the other packages of the index; none of them uses this one.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.index.report;
