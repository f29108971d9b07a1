package io.kvtier.protocol;

/** The versions and limits that both ends must agree on. Generated from protocol/schema.toml. */
public final class Protocol {
  /**
   * Changes when a layout or a meaning changes: peers with another major version refuse each other.
   */
  public static final int VERSION_MAJOR = 2;

  /** Changes when something is added that the other side may ignore. */
  public static final int VERSION_MINOR = 4;

  /** Both versions in one number: the major version is in the high 16 bits. */
  public static final int VERSION = 131076;

  /** The most keys or ids in one request; clients split larger batches. */
  public static final int KEYS_MAX = 2048;

  /** The most bytes of a block key's hash. */
  public static final int KEY_BYTES_MAX = 32;

  /** The most bytes of a registration's text. */
  public static final int TEXT_BYTES_MAX = 4096;

  /** The most bytes of a region's text, which names all of its tensors. */
  public static final int REGION_TEXT_BYTES_MAX = 65536;

  /** The smallest ring: it holds several of the largest records. */
  public static final int RING_BYTES_MIN = 262144;

  public static final int RING_BYTES_DEFAULT = 1048576;
  public static final int RING_BYTES_MAX = 67108864;

  private Protocol() {}
}
