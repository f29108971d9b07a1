package io.kvtier.daemon.simulation;

import io.kvtier.layout.encoding.BlockEncoding;
import io.kvtier.layout.encoding.EncodingKind;
import java.util.Arrays;
import java.util.Objects;
import java.util.SplittableRandom;
import org.jspecify.annotations.Nullable;

/** How the blocks of each namespace may be encoded. */
final class SimulatedEncodings {
  /** The raw bytes of a granule, which is a head of a block, too. */
  static final int GRANULE_BYTES = 4096;

  /** The seed of the encodings, which are drawn apart from all else. */
  private static final long ENCODED = 0x454e434fL;

  /** The seed of the lossy encodings, which are drawn apart from the older ones. */
  private static final long LOSSY = 0x4c4f5353L;

  private final @Nullable EncodingKind[] kinds;

  private SimulatedEncodings(@Nullable EncodingKind[] kinds) {
    this.kinds = kinds;
  }

  /** All namespaces have one encoding, or none has one. */
  static SimulatedEncodings all(@Nullable EncodingKind kind, int namespaces) {
    @Nullable EncodingKind[] kinds = new EncodingKind[namespaces];
    Arrays.fill(kinds, kind);
    return new SimulatedEncodings(kinds);
  }

  /** A third of the namespaces have an encoding, and half of these a lossy one. */
  static SimulatedEncodings any(long seed, int namespaces) {
    SplittableRandom forms = new SplittableRandom(seed ^ ENCODED);
    SplittableRandom losses = new SplittableRandom(seed ^ LOSSY);
    @Nullable EncodingKind[] kinds = new EncodingKind[namespaces];
    for (int i = 0; i < namespaces; i++) {
      if (forms.nextInt(3) == 0) {
        kinds[i] = losses.nextBoolean() ? EncodingKind.FP8 : EncodingKind.EXACT;
      }
    }
    return new SimulatedEncodings(kinds);
  }

  boolean isNowhere() {
    return Arrays.stream(kinds).allMatch(Objects::isNull);
  }

  boolean isEncoded(int namespace) {
    return kinds[namespace] != null;
  }

  boolean isLossy(int namespace) {
    EncodingKind kind = kinds[namespace];
    return kind != null && kind.isLossy();
  }

  /** The property of a namespace that has an encoding. */
  String property(int namespace) {
    return Objects.requireNonNull(kinds[namespace]).id() + " bf16 " + GRANULE_BYTES;
  }

  /** The encoding of a namespace that has one. */
  BlockEncoding of(int namespace, int blockBytes) {
    return BlockEncoding.of(property(namespace), blockBytes);
  }
}
