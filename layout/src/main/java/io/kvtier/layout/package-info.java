/**
 * The layout of KV blocks: how the bytes of a block lie in an engine's tensors and in host memory.
 * {@link io.kvtier.layout.KvLayout} describes both sides. {@link io.kvtier.layout.Runs} are the
 * contiguous spans of bytes that a copy between them moves. The package does arithmetic only: it
 * uses no GPU, no native call, and no other package of kvtier.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.layout;
