package io.kvtier.tiers.codec;

/**
 * Makes a codec that is chosen by name. Found by {@link java.util.ServiceLoader} in the jars of
 * plug-ins: a jar names its provider in {@code
 * META-INF/services/io.kvtier.tiers.codec.BlockCodecProvider}.
 */
public interface BlockCodecProvider {
  /** The smallest {@link #id} of a plug-in. */
  int ID_MIN = 64;

  /** The largest {@link #id} of a plug-in. */
  int ID_MAX = 127;

  /** The name by which the configuration chooses the codec: lower case. */
  String name();

  /**
   * The number of the encoding in the headers of stored blocks, from {@link #ID_MIN} to {@link
   * #ID_MAX}. No other encoding may ever have this number, on this node or on another node that
   * shares the object store.
   */
  int id();

  /**
   * Makes a codec.
   *
   * @param level the text behind the slash in the configuration; empty if there is no slash. Every
   *     level must decode the blocks of all levels. Blocks are decoded with the empty level
   * @throws IllegalArgumentException naming what is wrong with the level
   */
  BlockCodec create(String level);
}
