package io.kvtier.daemon;

import io.kvtier.daemon.access.ListenerRules;
import io.kvtier.daemon.config.ConfigException;
import io.kvtier.daemon.config.KvtierdConfig;
import io.kvtier.daemon.config.LoadedConfig;
import io.kvtier.daemon.config.MachineCheck;
import io.kvtier.daemon.session.PeerPolicy;
import io.kvtier.protocol.SocketPaths;
import java.io.IOException;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;

/**
 * Whether a daemon could be started with a configuration that was read, as far as that can be told
 * without one: the memory and disks of this machine, its users and groups, and who could reach the
 * listeners. Who starts a daemon, checks a configuration or reads one again asks the same.
 */
final class StartCheck {
  private static final List<String> KEYS =
      List.of("socket.users", "socket.groups", "tenants", "grpc.host", "http.host");

  private StartCheck() {}

  /**
   * Refuses what can't be started.
   *
   * @param isHere false: the configuration is another machine's, of which this one can't tell
   */
  static void require(LoadedConfig loaded, boolean isHere) throws ConfigException {
    KvtierdConfig config = loaded.config();
    List<String> problems = new ArrayList<>();
    if (isHere) {
      problems.addAll(MachineCheck.ofThisMachine().problems(loaded));
      try {
        var _ = new PeerPolicy(SocketPaths.uid(), config.socket(), config.tenants());
      } catch (IOException e) {
        problems.add(problem(loaded, e));
      }
    }
    if (config.grpc().enabled()) {
      listener(loaded, isHere, "grpc", config.grpc().host(), config.grpc().usesTls(), problems);
    }
    if (config.http().enabled()) {
      listener(loaded, isHere, "http", config.http().host(), config.http().usesTls(), problems);
    }
    if (!problems.isEmpty()) {
      throw ConfigException.of(problems);
    }
  }

  private static void listener(
      LoadedConfig loaded,
      boolean isHere,
      String section,
      String host,
      boolean usesTls,
      List<String> problems) {
    KvtierdConfig config = loaded.config();
    try {
      if (isHere || isAddress(host)) {
        ListenerRules.require(section, host, usesTls ? config.tls() : null, config.access());
      }
    } catch (IOException e) {
      problems.add(problem(loaded, e));
    }
  }

  /** What a name stands for, another machine may see otherwise. */
  private static boolean isAddress(String host) {
    try {
      var _ = InetAddress.ofLiteral(host);
      return true;
    } catch (IllegalArgumentException e) {
      return false;
    }
  }

  /** Begins with the key that is wrong; before it, where that stands. */
  private static String problem(LoadedConfig loaded, IOException e) {
    String message = String.valueOf(e.getMessage());
    return KEYS.stream()
            .filter(key -> message.startsWith(key + " "))
            .map(loaded::where)
            .filter(where -> !where.equals("default"))
            .map(where -> where + ": ")
            .findFirst()
            .orElse("")
        + message;
  }
}
