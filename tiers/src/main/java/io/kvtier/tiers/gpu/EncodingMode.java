package io.kvtier.tiers.gpu;

/** When GPUs store blocks encoded whose namespace has an encoding. */
public enum EncodingMode {
  /** Always. Nothing is measured. */
  ALWAYS,
  /**
   * Unless the encoding is lossless, and encoded copies are slower than the space that they save is
   * worth.
   */
  AUTO
}
