/** Clients of {@code scripts/soak}: each a process that puts and gets as it is told. */
@NullMarked
package io.kvtier.bench.soak;

import org.jspecify.annotations.NullMarked;
