/**
 * Blocks between an engine's GPU memory and the host tier: where a block's bytes lie in the
 * engine's tensors ({@link io.kvtier.tiers.gpu.KvLayout}), how those tensors are opened in this
 * process ({@link io.kvtier.tiers.gpu.DeviceRegion}), and what moves the bytes ({@link
 * io.kvtier.tiers.gpu.CopyEngine}). All that touches CUDA stands behind {@link
 * io.kvtier.tiers.gpu.GpuDriver}; a machine without a GPU never loads a class of it.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.tiers.gpu;
