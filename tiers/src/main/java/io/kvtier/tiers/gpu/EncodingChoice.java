package io.kvtier.tiers.gpu;

import io.kvtier.layout.encoding.BlockEncoding;

/**
 * Whether a GPU stores the blocks of a region encoded, and the measured speeds behind this choice.
 *
 * @param offload the speeds of copies to host memory
 * @param onboard the speeds of copies to the GPU
 */
public record EncodingChoice(boolean isEncoded, FormSpeeds offload, FormSpeeds onboard) {
  /**
   * Chooses a form. Blocks are encoded unless copies lose more speed in one direction than the
   * memory gains in blocks. With a lossy encoding, blocks are always encoded, because what a reader
   * gets must not depend on a measurement.
   */
  static EncodingChoice of(BlockEncoding encoding, FormSpeeds offload, FormSpeeds onboard) {
    double enough = (double) encoding.encodedBytes() / encoding.rawBytes();
    boolean isFastEnough = offload.isEncodedAtLeast(enough) && onboard.isEncodedAtLeast(enough);
    return new EncodingChoice(encoding.kind().isLossy() || isFastEnough, offload, onboard);
  }
}
