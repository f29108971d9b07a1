package io.kvtier.protocol.linux;

/** The mode bits that files and folders of this process never get (umask). */
public final class FileModeMask {
  private static final int GROUP_AND_OTHERS = 0077;

  private FileModeMask() {}

  /**
   * Keeps all files and folders that this process makes from now on to their owner, also those of
   * libraries that choose modes of their own. What is to be shared has its mode set explicitly.
   *
   * @return the mask before
   */
  public static int keepToOwner() {
    return set(GROUP_AND_OTHERS);
  }

  /** Sets the mask, and returns the one before. */
  public static int set(int mask) {
    try {
      return (int) Libc.UMASK.invokeExact(mask);
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }
}
