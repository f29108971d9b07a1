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

  /** With the listeners' own, the sections on which it depends who could reach them. */
  private static final List<String> LISTENER_SECTIONS = List.of("tls.", "access.");

  /** What memory, disks, users and groups of the machine are held against. */
  private static final List<String> MACHINE_SECTIONS =
      List.of("socket.", "host.", "ssd.", "object.", "limits.", "events.", "tenants");

  /** Where others than the socket's peers are listened to; null where they are not. */
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
   * Reads a configuration, and refuses what can't be read or can't be started. What is mistaken is
   * not looked at any further, and all else is, so that nobody is told of one mistake when another
   * one is mended.
   *
   * @param isHere false: the configuration is another machine's, of which this one can't tell
   */
  static LoadedConfig load(ConfigSource source, boolean isHere) throws ConfigException {
    ConfigReading reading = source.read();
    List<String> problems = new ArrayList<>(reading.problems());
    problems.addAll(problems(reading, isHere));
    refuse(problems);
    return reading.loaded();
  }

  /** The same of what was read already, and is right so far. */
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

  /** Whether a key has a say in who could reach a listener. */
  private static boolean isReach(Listener listener, String key) {
    return isAbout(listener, key) && !key.endsWith(".port");
  }

  /**
   * The same of a daemon that runs with another configuration. Its listeners stay as they are: they
   * are judged where what is about them has changed, and do not have to be found again by a name
   * that nobody can tell just now.
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
   * Where a daemon listens.
   *
   * @throws IOException where it may not, naming the keys to change
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

  /** What a name stands for, another machine may see otherwise. */
  private static boolean isName(String host) {
    try {
      var _ = InetAddress.ofLiteral(host);
      return false;
    } catch (IllegalArgumentException e) {
      return !host.isEmpty();
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
