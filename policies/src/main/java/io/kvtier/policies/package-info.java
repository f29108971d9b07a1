/** Eviction, admission and placement policies, free of I/O. */
@NullMarked
package io.kvtier.policies;

import org.jspecify.annotations.NullMarked;
