package io.kvtier.tiers.gpu;

/**
 * The measured speeds of both forms of blocks in one direction, in bytes of raw blocks.
 *
 * @param rawBytesPerNs the speed of the strategy that raw copies use
 * @param encodedBytesPerNs the speed of encoded copies
 */
public record FormSpeeds(double rawBytesPerNs, double encodedBytesPerNs) {
  /**
   * Whether encoded copies are fast enough.
   *
   * @param share the part of the raw copies' speed that is enough
   */
  boolean isEncodedAtLeast(double share) {
    return encodedBytesPerNs >= share * rawBytesPerNs;
  }
}
