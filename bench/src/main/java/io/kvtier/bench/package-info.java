/** Benchmarks, and the checks that see every module. */
@NullMarked
package io.kvtier.bench;

import org.jspecify.annotations.NullMarked;
