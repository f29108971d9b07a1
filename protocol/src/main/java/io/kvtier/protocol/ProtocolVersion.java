package io.kvtier.protocol;

/** Compares versions of the protocol, and says what to do if two do not fit. */
public final class ProtocolVersion {
  private ProtocolVersion() {}

  /** A version as people write it. */
  public static String describe(int version) {
    return (version >>> 16) + "." + (version & 0xffff);
  }

  /** Whether this process understands a peer of that version. */
  public static boolean isCompatible(int version) {
    return version >>> 16 == Protocol.VERSION_MAJOR;
  }

  /**
   * Says that a client and a daemon do not understand each other, and what to do. The text follows
   * the name of the daemon.
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
