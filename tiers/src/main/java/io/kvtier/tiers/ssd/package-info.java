/**
 * The SSD tier's bytes: preallocated files of slots, each block stored behind a header that names
 * and checks it.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.tiers.ssd;
