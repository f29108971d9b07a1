/** The host tier's bytes: slabs of shared memory. */
@org.jspecify.annotations.NullMarked
package io.kvtier.tiers.host;
