/**
 * The GPU tier on a real GPU: what {@code scripts/gpu-check} runs beside the process that owns the
 * tensors.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.bench.gpu;
