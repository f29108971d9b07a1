package io.kvtier.protocol;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Where daemon and clients meet when nobody says otherwise. */
public final class SocketPaths {
  private SocketPaths() {}

  /**
   * {@code $KVTIER_SOCKET}, else {@code $XDG_RUNTIME_DIR/kvtier.sock}, else {@code
   * /tmp/kvtier-UID/kvtier.sock}, whose folder only this user can write.
   */
  public static Path defaultPath() {
    String explicit = System.getenv("KVTIER_SOCKET");
    if (explicit != null && !explicit.isEmpty()) {
      return Path.of(explicit);
    }
    String runtime = System.getenv("XDG_RUNTIME_DIR");
    return runtime != null && !runtime.isEmpty()
        ? Path.of(runtime, "kvtier.sock")
        : inTemporaryFolder();
  }

  private static Path inTemporaryFolder() {
    return Path.of("/tmp/kvtier-" + uid(), "kvtier.sock");
  }

  /** Whether a path is the usual one where no other is given: its folder is made by the daemon. */
  public static boolean isInTemporaryFolder(Path socket) {
    return socket.equals(inTemporaryFolder());
  }

  /**
   * {@code /var/lib/kvtier} for root, {@code $XDG_CACHE_HOME/kvtier} or {@code ~/.cache/kvtier} for
   * others.
   */
  public static Path defaultDataDirectory() {
    if (uid() == 0) {
      return Path.of("/var/lib/kvtier");
    }
    String cache = System.getenv("XDG_CACHE_HOME");
    return cache != null && !cache.isEmpty()
        ? Path.of(cache, "kvtier")
        : Path.of(System.getProperty("user.home", "/tmp"), ".cache", "kvtier");
  }

  /** This process's user. */
  public static int uid() {
    try {
      Object uid = Files.getAttribute(Path.of("/proc/self"), "unix:uid");
      return uid instanceof Integer number ? number : 0;
    } catch (IOException e) {
      throw new IllegalStateException("/proc is not mounted", e);
    }
  }
}
