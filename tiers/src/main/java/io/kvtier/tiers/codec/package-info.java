/** Ways to make a block's bytes fewer on their way to a slower medium, and back bit by bit. */
@org.jspecify.annotations.NullMarked
package io.kvtier.tiers.codec;
