package io.kvtier.daemon;

import io.kvtier.daemon.access.ListenerRules;
import io.kvtier.daemon.config.ConfigException;
import io.kvtier.daemon.config.KvtierdConfig;
import io.kvtier.daemon.config.KvtierdConfig.AccessConfig;
import io.kvtier.daemon.config.KvtierdConfig.TlsConfig;
import io.kvtier.daemon.config.LoadedConfig;
import io.kvtier.daemon.config.MachineCheck;
import io.kvtier.daemon.session.PeerPolicy;
import io.kvtier.protocol.SocketPaths;
import java.io.IOException;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;
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

  /**
   * Where others than the socket's peers are listened to; null where they are not.
   *
   * @param grpc what {@code grpc.host} stands for
   * @param http what {@code http.host} stands for
   */
  record Listeners(@Nullable InetAddress grpc, @Nullable InetAddress http) {}

  /** A listener as it is configured; {@code tls} is null where it has none. */
  private record Listener(String section, boolean enabled, String host, @Nullable TlsConfig tls) {
    static Listener grpc(KvtierdConfig config) {
      KvtierdConfig.GrpcConfig grpc = config.grpc();
      return new Listener(
          "grpc", grpc.enabled(), grpc.host(), grpc.usesTls() ? config.tls() : null);
    }

    static Listener http(KvtierdConfig config) {
      KvtierdConfig.HttpConfig http = config.http();
      return new Listener(
          "http", http.enabled(), http.host(), http.usesTls() ? config.tls() : null);
    }

    @Nullable InetAddress require(AccessConfig access) throws IOException {
      return enabled ? ListenerRules.require(section, host, tls, access) : null;
    }
  }

  private StartCheck() {}

  /**
   * Refuses what can't be started.
   *
   * @param isHere false: the configuration is another machine's, of which this one can't tell
   */
  static void require(LoadedConfig loaded, boolean isHere) throws ConfigException {
    List<String> problems = isHere ? machineProblems(loaded) : new ArrayList<>();
    Stream.of(Listener.grpc(loaded.config()), Listener.http(loaded.config()))
        .filter(listener -> isHere || isAddress(listener.host))
        .forEach(listener -> addProblem(loaded, listener, problems));
    refuse(problems);
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
    return key.startsWith(listener.section + ".")
        || LISTENER_SECTIONS.stream().anyMatch(key::startsWith);
  }

  /**
   * Where a daemon listens.
   *
   * @throws IOException where it may not, naming the keys to change
   */
  static Listeners listeners(KvtierdConfig config) throws IOException {
    return new Listeners(
        Listener.grpc(config).require(config.access()),
        Listener.http(config).require(config.access()));
  }

  private static List<String> machineProblems(LoadedConfig loaded) {
    List<String> problems = new ArrayList<>(MachineCheck.ofThisMachine().problems(loaded));
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
      var _ = listener.require(loaded.config().access());
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
