package io.kvtier.protocol;

/** The versions and limits that both ends must agree on. */
public final class Protocol {
  /**
   * Changes when a layout or a meaning changes: peers with another major version refuse each other.
   */
  public static final int VERSION_MAJOR = 1;

  /** Changes when something is added that the other side may ignore. */
  public static final int VERSION_MINOR = 5;

  public static final int VERSION = VERSION_MAJOR << 16 | VERSION_MINOR;

  /** The most keys or ids in one request; clients split larger batches. */
  public static final int KEYS_MAX = 2048;

  /** The most bytes of a block key's hash. */
  public static final int KEY_BYTES_MAX = 32;

  /** The most bytes of a registration's text. */
  public static final int TEXT_BYTES_MAX = 4096;

  /** The same of a region's, which names all of its tensors. */
  public static final int REGION_TEXT_BYTES_MAX = 64 << 10;

  /** The smallest ring: room for several of the largest records. */
  public static final int RING_BYTES_MIN = 1 << 18;

  public static final int RING_BYTES_DEFAULT = 1 << 20;
  public static final int RING_BYTES_MAX = 1 << 26;

  private Protocol() {}

  /** A version as people write it. */
  public static String describe(int version) {
    return (version >>> 16) + "." + (version & 0xffff);
  }

  public static boolean isCompatible(int version) {
    return version >>> 16 == VERSION_MAJOR;
  }
}
