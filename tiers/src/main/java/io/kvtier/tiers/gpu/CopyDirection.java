package io.kvtier.tiers.gpu;

/** Which way a copy goes. */
public enum CopyDirection {
  /** From the device to the host. */
  OFFLOAD,
  /** From the host to the device. */
  ONBOARD,
  /**
   * From device memory to device memory of other tensors, on the same GPU or on one that it
   * reaches. What is said of the host's side goes for the source's then; nothing is staged.
   */
  PEER
}
