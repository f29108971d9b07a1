/** Tests of what connects nodes, and a network that exists only in memory. */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.node;
