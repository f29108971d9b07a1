package io.kvtier.daemon.doctor;

import io.kvtier.tiers.gpu.GpuDevice;
import io.kvtier.tiers.gpu.IpcHandle;

/** Another process with memory of GPUs, as an engine is: CUDA lets none open its own handles. */
interface Lender extends AutoCloseable {
  /** What comes of asking for an allocation. */
  sealed interface Answer {
    /** An allocation that holds {@link GpuMemory}'s pattern until the lender is closed. */
    record Lent(IpcHandle handle) implements Answer {}

    /** There is none; the reason. */
    record Refused(String reason) implements Answer {}
  }

  /** Asks for an allocation on a GPU. */
  Answer lend(GpuDevice device);

  @Override
  void close();
}
