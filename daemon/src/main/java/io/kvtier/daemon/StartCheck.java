package io.kvtier.daemon;

import io.kvtier.daemon.access.Listener;
import io.kvtier.daemon.config.ConfigException;
import io.kvtier.daemon.config.ConfigReading;
import io.kvtier.daemon.config.ConfigSource;
import io.kvtier.daemon.config.KvtierdConfig;
import io.kvtier.daemon.config.LoadedConfig;
import io.kvtier.daemon.config.MachineCheck;
import io.kvtier.daemon.index.KnownTiers;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.session.PeerPolicy;
import io.kvtier.protocol.SocketPaths;
import java.io.IOException;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Whether a daemon could be started with a configuration that was read, as far as that can be told
 * without one: the memory and disks of this machine, its users and groups, and who could reach the
 * listeners. Who starts a daemon, checks a configuration or reads one again asks the same.
 */
final class StartCheck {
  private static final List<String> KEYS =
      List.of("socket.users", "socket.groups", "tenants", "grpc.host", "http.host");

  /** The sections, besides a listener's own, that decide who can reach the listener. */
  private static final List<String> LISTENER_SECTIONS = List.of("tls.", "access.");

  /** The sections that are checked against the machine's memory, disks, users and groups. */
  private static final List<String> MACHINE_SECTIONS =
      List.of("socket.", "host.", "ssd.", "object.", "limits.", "events.", "tenants");

  /** The places of the network listeners; null for a listener that is off. */
  record Listeners(Listener.@Nullable Place grpc, Listener.@Nullable Place http) {
    /** Asks for their ports and gives them back. */
    void requireFree() throws IOException {
      if (grpc != null) {
        grpc.requireFree();
      }
      if (http != null) {
        http.requireFree();
      }
    }
  }

  private StartCheck() {}

  /**
   * Reads a configuration, and refuses one that can't be read or started. A mistaken key is not
   * checked further; all other keys are, so that all mistakes are reported together.
   *
   * @param isHere false: the configuration is for another machine, and is not checked against this
   *     one
   */
  static LoadedConfig load(ConfigSource source, boolean isHere) throws ConfigException {
    ConfigReading reading = source.read();
    List<String> problems = new ArrayList<>(reading.problems());
    problems.addAll(problems(reading, isHere));
    refuse(problems);
    return reading.loaded();
  }

  /** Refuses a configuration that was read without mistakes and can't be started. */
  static void require(LoadedConfig loaded, boolean isHere) throws ConfigException {
    refuse(problems(new ConfigReading(loaded, Set.of(), List.of()), isHere));
  }

  private static List<String> problems(ConfigReading reading, boolean isHere) {
    LoadedConfig loaded = reading.loaded();
    List<String> problems = new ArrayList<>();
    if (isHere && reading.isRight(key -> MACHINE_SECTIONS.stream().anyMatch(key::startsWith))) {
      problems.addAll(machineProblems(loaded));
    }
    Stream.of(Listener.grpc(loaded.config()), Listener.http(loaded.config()))
        .filter(listener -> isHere || !isName(listener.host()))
        .filter(listener -> reading.isRight(key -> isReach(listener, key)))
        .forEach(listener -> addProblem(loaded, listener, problems));
    return problems;
  }

  /** Whether a key decides who can reach a listener. */
  private static boolean isReach(Listener listener, String key) {
    return isAbout(listener, key) && !key.endsWith(".port");
  }

  /**
   * Refuses a configuration that can't replace the one with which a daemon runs. The daemon's
   * listeners stay: a listener is checked only if one of its keys has changed, because its host
   * name may not be resolvable just now.
   */
  static void requireChange(LoadedConfig next, LoadedConfig now) throws ConfigException {
    List<String> problems = machineProblems(next);
    List<String> changed = next.changedFrom(now);
    Stream.of(Listener.grpc(next.config()), Listener.http(next.config()))
        .filter(listener -> changed.stream().anyMatch(key -> isAbout(listener, key)))
        .forEach(listener -> addProblem(next, listener, problems));
    refuse(problems);
  }

  private static boolean isAbout(Listener listener, String key) {
    return key.startsWith(listener.section() + ".")
        || LISTENER_SECTIONS.stream().anyMatch(key::startsWith);
  }

  /**
   * The places where a daemon listens.
   *
   * @throws IOException if the daemon may not listen there, naming the keys to change
   */
  static Listeners listeners(KvtierdConfig config) throws IOException {
    return new Listeners(
        place(Listener.grpc(config), config), place(Listener.http(config), config));
  }

  private static Listener.@Nullable Place place(Listener listener, KvtierdConfig config)
      throws IOException {
    return listener.enabled() ? listener.judge(config.network().access()) : null;
  }

  private static List<String> machineProblems(LoadedConfig loaded) {
    List<String> problems =
        new ArrayList<>(
            MachineCheck.ofThisMachine(
                    blocks -> Directory.metadataBytesFor(blocks, KnownTiers.ALL.size()))
                .problems(loaded));
    KvtierdConfig config = loaded.config();
    try {
      var _ = new PeerPolicy(SocketPaths.uid(), config.socket(), config.tenants());
    } catch (IOException e) {
      problems.add(problem(loaded, e));
    }
    return problems;
  }

  private static void addProblem(LoadedConfig loaded, Listener listener, List<String> problems) {
    try {
      var _ = place(listener, loaded.config());
    } catch (IOException e) {
      problems.add(problem(loaded, e));
    }
  }

  private static void refuse(List<String> problems) throws ConfigException {
    if (!problems.isEmpty()) {
      throw ConfigException.of(problems);
    }
  }

  /** Whether a host is a name: another machine may resolve a name to another address. */
  private static boolean isName(String host) {
    try {
      var _ = InetAddress.ofLiteral(host);
      return false;
    } catch (IllegalArgumentException e) {
      return !host.isEmpty();
    }
  }

  /**
   * A problem in words: the place of the wrong key, if it is written somewhere, and the message.
   */
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
