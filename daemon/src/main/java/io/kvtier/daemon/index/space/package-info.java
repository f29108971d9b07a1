/**
 * A resident tier as the index sees it: its slots, the copies in them, and the search for victims;
 * and the stack of these tiers. Uses {@code core}.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.index.space;
