package io.kvtier.protocol;

/**
 * Versions of the protocol: how they are written, which understand each other, and what to do if
 * not.
 */
public final class ProtocolVersion {
  private ProtocolVersion() {}

  /** A version as people write it. */
  public static String describe(int version) {
    return (version >>> 16) + "." + (version & 0xffff);
  }

  /** Whether a peer of that version is understood. */
  public static boolean isCompatible(int version) {
    return version >>> 16 == Protocol.VERSION_MAJOR;
  }

  /**
   * Says that a client and a daemon do not understand each other, and what to do. The daemon's name
   * stands before it.
   */
  public static String mismatch(int daemonVersion, int clientVersion) {
    return "speaks protocol "
        + describe(daemonVersion)
        + ", the client protocol "
        + describe(clientVersion)
        + ": "
        + (Integer.compareUnsigned(daemonVersion, clientVersion) < 0
            ? "upgrade kvtierd and restart it"
            : "upgrade the client")
        + ", so that both have the same version of kvtier";
  }
}
