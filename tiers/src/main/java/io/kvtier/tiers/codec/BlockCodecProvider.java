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
   * What headers of stored blocks say of the encoding, from {@link #ID_MIN} to {@link #ID_MAX}. It
   * must never be used again for another encoding, nor on another node that shares the object
   * store.
   */
  int id();

  /**
   * Makes a codec.
   *
   * @param level what stands behind the slash in the configuration; empty where there is none.
   *     Every level can decode what any level has encoded. Blocks are decoded with the empty one
   * @throws IllegalArgumentException naming what is wrong with the level
   */
  BlockCodec create(String level);
}
