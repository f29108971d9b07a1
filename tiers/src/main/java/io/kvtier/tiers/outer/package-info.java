/**
 * Sources of blocks that plug-ins bring: what a plug-in implements, and the threads that call it.
 */
@NullMarked
package io.kvtier.tiers.outer;

import org.jspecify.annotations.NullMarked;
