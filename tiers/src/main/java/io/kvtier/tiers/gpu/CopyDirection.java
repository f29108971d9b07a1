package io.kvtier.tiers.gpu;

/** Which way a copy goes. */
public enum CopyDirection {
  /** From the device to the host. */
  OFFLOAD,
  /** From the host to the device. */
  ONBOARD
}
