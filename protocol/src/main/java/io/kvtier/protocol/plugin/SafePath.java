package io.kvtier.protocol.plugin;

import io.kvtier.protocol.SocketPaths;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** Checks that only root and this process's user can change or replace a file or a folder. */
final class SafePath {
  private static final int ROOT = 0;
  private static final int GROUP_OR_OTHERS_WRITE = 0022;
  private static final int OTHERS_WRITE = 0002;
  private static final int STICKY = 01000;
  private static final int MODE_BITS = 07777;

  private SafePath() {}

  /**
   * Says how another user could change the file or folder at a path, and what to do; null if no
   * other user could.
   *
   * @param real a path without links
   */
  static @Nullable String problem(Path real) throws IOException {
    String own = problem(real, GROUP_OR_OTHERS_WRITE, "g-w,o-w");
    if (own != null) {
      return own;
    }
    for (Path above = real.getParent(); above != null; above = above.getParent()) {
      // In a sticky folder such as /tmp, users can only rename their own files.
      if ((mode(above) & STICKY) == 0) {
        String problem = problem(above, OTHERS_WRITE, "o-w");
        if (problem != null) {
          return problem;
        }
      }
    }
    return null;
  }

  private static @Nullable String problem(Path path, int forbidden, String cure)
      throws IOException {
    int owner = (int) Files.getAttribute(path, "unix:uid");
    int user = SocketPaths.uid();
    if (owner != ROOT && owner != user) {
      return "'"
          + path
          + "' belongs to user "
          + Integer.toUnsignedString(owner)
          + ", who could change the code that runs here; expected root or user "
          + user
          + ": chown root '"
          + path
          + "'";
    }
    int mode = mode(path) & MODE_BITS;
    return (mode & forbidden) == 0
        ? null
        : "'"
            + path
            + "' has mode "
            + String.format(Locale.ROOT, "%04o", mode)
            + ", so others could change the code that runs here; expected no write permission for"
            + " them: chmod "
            + cure
            + " '"
            + path
            + "'";
  }

  private static int mode(Path path) throws IOException {
    return (int) Files.getAttribute(path, "unix:mode");
  }
}
