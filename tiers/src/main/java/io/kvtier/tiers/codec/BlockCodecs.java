package io.kvtier.tiers.codec;

import com.github.luben.zstd.Zstd;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * The codecs, by name: {@code none}, {@code zstd}, {@code planes}, and those that plug-ins bring.
 * All but {@code none} can have a level behind a slash: {@code zstd/3}.
 */
public final class BlockCodecs {
  /** KV bytes are mostly noise: higher levels take longer and gain next to nothing. */
  private static final int LEVEL_DEFAULT = 1;

  /** The codecs of plug-ins, by name. */
  private static volatile Map<String, BlockCodecProvider> plugged = Map.of();

  /** The codecs that decode the blocks of plug-ins, by id. */
  private static volatile Map<Byte, BlockCodec> pluggedDecoders = Map.of();

  private BlockCodecs() {}

  /** The names that no plug-in can have. */
  public static List<String> builtInNames() {
    return List.of(NoCodec.NAME, ZstdCodec.NAME, PlanesCodec.NAME);
  }

  /**
   * Replaces the codecs of plug-ins.
   *
   * @throws IllegalArgumentException when two providers have the same id, or a provider has an id
   *     out of range or makes no codec
   */
  public static void plugIn(Map<String, BlockCodecProvider> providers) {
    Map<Byte, BlockCodec> decoders = new HashMap<>();
    Map<Byte, String> names = new HashMap<>();
    for (Map.Entry<String, BlockCodecProvider> each : providers.entrySet()) {
      String name = each.getKey();
      byte id = id(name, each.getValue());
      String other = names.put(id, name);
      if (other != null) {
        throw new IllegalArgumentException(
            "the plug-ins' codecs '"
                + other
                + "' and '"
                + name
                + "' both have the id "
                + id
                + "; expected each id once: remove one of the two");
      }
      decoders.put(id, plugged(name, each.getValue(), ""));
    }
    pluggedDecoders = Map.copyOf(decoders);
    plugged = Map.copyOf(providers);
  }

  private static byte id(String name, BlockCodecProvider provider) {
    int id;
    try {
      id = provider.id();
    } catch (RuntimeException | LinkageError e) {
      throw failure(name, e);
    }
    if (id < BlockCodecProvider.ID_MIN || id > BlockCodecProvider.ID_MAX) {
      throw new IllegalArgumentException(
          "the plug-in's codec '"
              + name
              + "' has the id "
              + id
              + "; expected one from "
              + BlockCodecProvider.ID_MIN
              + " to "
              + BlockCodecProvider.ID_MAX
              + ": ask the author of the plug-in");
    }
    return (byte) id;
  }

  private static BlockCodec plugged(String name, BlockCodecProvider provider, String level) {
    BlockCodec codec;
    try {
      codec = provider.create(level);
    } catch (IllegalArgumentException e) {
      throw e;
    } catch (RuntimeException | LinkageError e) {
      throw failure(name, e);
    }
    if (codec == null) {
      throw failure(name, null);
    }
    return new WatchedCodec(codec, level.isEmpty() ? name : name + "/" + level, id(name, provider));
  }

  private static IllegalArgumentException failure(String name, @Nullable Throwable cause) {
    return new IllegalArgumentException(
        "the plug-in's provider of the codec '"
            + name
            + "' "
            + (cause == null ? "made none (null)" : "failed: " + cause)
            + "; expected a codec: choose another one, or ask the author of the plug-in",
        cause);
  }

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
      default -> {
        BlockCodecProvider provider = plugged.get(name);
        if (provider == null) {
          throw new IllegalArgumentException(
              "codec '" + specification + "' is unknown: write " + known());
        }
        yield plugged(name, provider, slash < 0 ? "" : specification.substring(slash + 1));
      }
    };
  }

  private static String known() {
    String builtIn = "'none', 'zstd' or 'planes'";
    return plugged.isEmpty()
        ? builtIn
        : builtIn + ", or one of " + String.join(", ", new TreeSet<>(plugged.keySet()));
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
      default -> {
        BlockCodec decoder = pluggedDecoders.get(id);
        if (decoder == null) {
          throw new CodecException("no codec has the id " + Byte.toUnsignedInt(id));
        }
        yield decoder;
      }
    };
  }

  /** Whether there is a codec with the id of a header. If not, a plug-in may be missing. */
  public static boolean isKnown(byte id) {
    return (id >= NoCodec.ID && id <= PlanesCodec.ID) || pluggedDecoders.containsKey(id);
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
