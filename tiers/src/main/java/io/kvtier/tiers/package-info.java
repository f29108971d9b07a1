/** The storage tiers and the movement of blocks between them. */
@NullMarked
package io.kvtier.tiers;

import org.jspecify.annotations.NullMarked;
