/**
 * Where blocks can be fetched from that this node does not own: the object store. Uses {@code
 * core}.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.index.source;
