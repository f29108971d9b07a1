/**
 * The eviction policies: one class each, over lists threaded through arrays that are indexed by
 * block id. Keys that are remembered without their blocks are in bounded tables of fingerprints.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.policies.eviction;
