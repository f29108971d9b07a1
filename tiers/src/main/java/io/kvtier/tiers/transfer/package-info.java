/**
 * Work that takes time, done off the index's thread: transfers, the legs that carry them out, the
 * pipelines that run them.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.tiers.transfer;
