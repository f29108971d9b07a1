/**
 * How the space of a tier is cut: regions, each of one size class, each a number of equal slots.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.tiers.slots;
