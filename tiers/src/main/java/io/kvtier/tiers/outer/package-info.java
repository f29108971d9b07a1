/**
 * Sources of blocks that plug-ins bring: the interfaces of plug-ins, and the threads that call
 * them.
 */
@NullMarked
package io.kvtier.tiers.outer;

import org.jspecify.annotations.NullMarked;
