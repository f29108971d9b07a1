/**
 * The lifetime of objects: the cap on their bytes that one node at a time holds for all, what was
 * used when, and the looks at what is there.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.tiers.object.janitor;
