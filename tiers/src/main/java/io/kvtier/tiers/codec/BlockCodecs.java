package io.kvtier.tiers.codec;

import com.github.luben.zstd.Zstd;

/**
 * The codecs by name: {@code none}, {@code zstd}, {@code planes}, the latter two with a level
 * behind a slash if wanted, {@code zstd/3}.
 */
public final class BlockCodecs {
  /** KV bytes are mostly noise: higher levels take longer and gain next to nothing. */
  private static final int LEVEL_DEFAULT = 1;

  private BlockCodecs() {}

  /**
   * A codec.
   *
   * @throws IllegalArgumentException naming what is wrong with the specification
   */
  public static BlockCodec create(String specification) {
    int slash = specification.indexOf('/');
    String name = slash < 0 ? specification : specification.substring(0, slash);
    return switch (name) {
      case NoCodec.NAME -> {
        if (slash >= 0) {
          throw new IllegalArgumentException(
              "codec '" + specification + "': 'none' has no level; write 'none'");
        }
        yield new NoCodec();
      }
      case ZstdCodec.NAME -> new ZstdCodec(level(specification, slash));
      case PlanesCodec.NAME -> new PlanesCodec(level(specification, slash));
      default ->
          throw new IllegalArgumentException(
              "codec '" + specification + "' is unknown: write 'none', 'zstd' or 'planes'");
    };
  }

  /** The codec that leaves bytes as they are. */
  public static BlockCodec none() {
    return Decoders.NONE;
  }

  /**
   * The codec that decodes what a header's id says.
   *
   * @throws CodecException when no codec has the id
   */
  public static BlockCodec byId(byte id) throws CodecException {
    return switch (id) {
      case NoCodec.ID -> Decoders.NONE;
      case ZstdCodec.ID -> Decoders.ZSTD;
      case PlanesCodec.ID -> Decoders.PLANES;
      default -> throw new CodecException("no codec has the id " + Byte.toUnsignedInt(id));
    };
  }

  private static int level(String specification, int slash) {
    if (slash < 0) {
      return LEVEL_DEFAULT;
    }
    String text = specification.substring(slash + 1);
    try {
      int level = Integer.parseInt(text);
      if (level != 0
          && level >= Zstd.minCompressionLevel()
          && level <= Zstd.maxCompressionLevel()) {
        return level;
      }
    } catch (NumberFormatException e) {
      // Refused below, like a number that is out of range.
    }
    throw new IllegalArgumentException(
        "codec '"
            + specification
            + "': the level '"
            + text
            + "' is none of 1 to "
            + Zstd.maxCompressionLevel()
            + ", nor one of the fast ones from -1 down");
  }

  private static final class Decoders {
    static final BlockCodec NONE = new NoCodec();
    static final BlockCodec ZSTD = new ZstdCodec(LEVEL_DEFAULT);
    static final BlockCodec PLANES = new PlanesCodec(LEVEL_DEFAULT);
  }
}
