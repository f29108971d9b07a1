/**
 * Regions of engines' GPU memory: how blocks are copied there and back, and from one region to
 * another. Uses {@code session}, {@code move}, {@code space} and {@code core}.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.daemon.index.device;
