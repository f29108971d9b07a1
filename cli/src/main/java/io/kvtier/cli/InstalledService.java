package io.kvtier.cli;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/**
 * The service kvtierd of the packages, where it is installed.
 *
 * @param units where its unit may stand
 * @param socket where it listens
 */
record InstalledService(List<Path> units, Path socket) {
  private static final String UNIT = "kvtierd.service";

  InstalledService {
    units = List.copyOf(units);
  }

  static InstalledService ofThisMachine() {
    return new InstalledService(
        List.of(
            Path.of("/etc/systemd/system", UNIT),
            Path.of("/usr/lib/systemd/system", UNIT),
            Path.of("/lib/systemd/system", UNIT)),
        Path.of("/run/kvtier/kvtier.sock"));
  }

  /** What to do where a daemon does not answer; empty where the service is not installed. */
  Optional<String> cure() {
    if (units.stream().noneMatch(Files::exists)) {
      return Optional.empty();
    }
    return Optional.of(
        Files.exists(socket)
            ? "the service kvtierd listens at "
                + socket
                + ": ask it with --socket "
                + socket
                + "; 'systemctl status kvtierd' shows its state"
            : "the service kvtierd is installed and has no socket at "
                + socket
                + ": start it with 'systemctl start kvtierd'; 'journalctl -u kvtierd' tells why it"
                + " ended");
  }
}
