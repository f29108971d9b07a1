/**
 * Copies of blocks between an engine's GPU memory and the host tier. A {@link
 * io.kvtier.tiers.gpu.DeviceRegion} opens an engine's tensors in this process. A {@link
 * io.kvtier.tiers.gpu.CopyEngine} moves the bytes, by the runs of {@link
 * io.kvtier.layout.KvLayout}. All calls of CUDA are behind {@link io.kvtier.tiers.gpu.GpuDriver}; a
 * machine without a GPU never loads a class of CUDA.
 */
@org.jspecify.annotations.NullMarked
package io.kvtier.tiers.gpu;
