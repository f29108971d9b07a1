package io.kvtier.daemon;

import io.kvtier.daemon.config.ConfigException;
import io.kvtier.daemon.config.ConfigLoader;
import io.kvtier.daemon.config.ConfigSource;
import io.kvtier.daemon.config.KvtierdConfig;
import io.kvtier.daemon.config.LoadedConfig;
import io.kvtier.daemon.log.DaemonLog;
import io.kvtier.protocol.linux.FileModeMask;
import io.kvtier.protocol.linux.Machine;
import io.kvtier.tiers.files.ByteSize;
import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.gpu.CudaDriver;
import io.kvtier.tiers.gpu.GpuProbe;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.UnmatchedArgumentException;

/** The daemon's command line. */
@Command(
    name = "kvtierd",
    version = "kvtierd " + Daemon.VERSION,
    mixinStandardHelpOptions = true,
    subcommands = {ConfigCommand.class, DoctorCommand.class},
    description =
        "Keeps the KV cache of LLM inference engines in host memory, on SSD and in an object"
            + " store.",
    footer = {
      "",
      "Exit codes: 128 plus the number of the signal that stopped it; 1 a part could not be started;"
          + " 2 wrong usage or configuration; 3 the Java heap was too small (raise it with"
          + " KVTIERD_JAVA_OPTS=-Xmx...); 70 a defect, or too little memory for the host tier: the"
          + " log says which."
    })
public final class Kvtierd implements Callable<Integer> {
  @Option(
      names = "--config",
      paramLabel = "FILE",
      description = "Configuration file. Keys that it leaves out have their defaults.")
  private @Nullable Path config;

  @Option(
      names = "--set",
      paramLabel = "KEY=VALUE",
      description = "A setting that overrides file and environment. May be repeated.")
  private List<String> settings = new ArrayList<>();

  @Option(
      names = "--socket",
      paramLabel = "PATH",
      description = "Path of the socket; the same as --set socket.path=PATH.")
  private @Nullable Path socket;

  @Option(
      names = "--print-config",
      description = "Prints the default configuration, with comments, and ends.")
  private boolean printConfig;

  private final Supplier<GpuProbe> gpus;

  private Kvtierd(Supplier<GpuProbe> gpus) {
    this.gpus = gpus;
  }

  /** Runs until a signal. */
  public static void main(String[] arguments) {
    main(arguments, CudaDriver::probe);
  }

  /** Runs until a signal, with another probe for GPUs. */
  static void main(String[] arguments, Supplier<GpuProbe> gpus) {
    String refusal = Machine.refusal();
    if (refusal != null) {
      System.err.println("kvtierd: " + refusal);
      System.exit(1);
    }
    PlainStart plain = PlainStart.of(arguments);
    System.exit(plain == null ? commandLine(gpus).execute(arguments) : startOrExplain(plain, gpus));
  }

  /** The command with all its parts. */
  static CommandLine commandLine(Supplier<GpuProbe> gpus) {
    CommandLine commandLine = new CommandLine(new Kvtierd(gpus));
    commandLine.setParameterExceptionHandler((e, arguments) -> {
      CommandLine failed = e.getCommandLine();
      String name = failed.getCommandSpec().qualifiedName();
      // The whole usage would bury the reason.
      failed.getErr().println("kvtierd: " + e.getMessage());
      UnmatchedArgumentException.printSuggestions(e, failed.getErr());
      failed.getErr().println("see '" + name + " --help'");
      failed.getErr().flush();
      return failed.getCommandSpec().exitCodeOnInvalidInput();
    });
    return commandLine;
  }

  @Override
  public Integer call() {
    if (printConfig) {
      System.out.print(ConfigLoader.defaults());
      return 0;
    }
    return start(asked(), gpus);
  }

  /** The options of the start. */
  PlainStart asked() {
    List<String> all = new ArrayList<>(settings);
    if (socket != null) {
      all.add("socket.path=" + socket);
    }
    return new PlainStart(config, all);
  }

  /**
   * Starts, or prints the reason. It ends the process as picocli does: other threads could keep it
   * alive.
   */
  private static int startOrExplain(PlainStart asked, Supplier<GpuProbe> gpus) {
    try {
      return start(asked, gpus);
    } catch (RuntimeException e) {
      DaemonLog.startFailed(
          logOf(ConfigSource.of(asked.config(), asked.settings())), "a defect: " + e, e);
      return 1;
    }
  }

  private static int start(PlainStart asked, Supplier<GpuProbe> gpus) {
    // Blocks reveal prompts: only this user may read files that this process writes.
    FileModeMask.keepToOwner();
    ConfigSource source = ConfigSource.of(asked.config(), asked.settings());
    LoadedConfig loaded;
    try {
      loaded = StartCheck.load(source, true);
    } catch (ConfigException e) {
      DaemonLog.startFailed(logOf(source), String.valueOf(e.getMessage()), null);
      return 2;
    }
    try {
      DaemonLog.configure(loaded.config().reports().log());
      return run(source, loaded, gpus);
    } catch (IOException e) {
      String words = FileErrors.withCure(FileErrors.words(e));
      DaemonLog.startFailed(loaded.config().reports().log(), words, null);
      return 1;
    }
  }

  /** The log's settings of a mistaken configuration: mistaken keys have their defaults. */
  private static KvtierdConfig.LogConfig logOf(ConfigSource source) {
    return source.read().loaded().config().reports().log();
  }

  private static int run(ConfigSource source, LoadedConfig loaded, Supplier<GpuProbe> gpus)
      throws IOException {
    KvtierdConfig config = loaded.config();
    ServiceManager manager = ServiceManager.of(System.getenv(), ProcessHandle.current().pid());
    // The start can take a while. A hangup that comes meanwhile is handled after the start.
    Hangup hangup = Hangup.hear();
    Daemon daemon = new Daemon(config, gpus, live -> new Reloader(source, loaded, live, manager));
    SelfRestart restart = new SelfRestart(System.getenv(), whyNoRestart(config));
    CountDownLatch stopped = new CountDownLatch(1);
    Runtime.getRuntime()
        .addShutdownHook(
            new Thread(
                () -> {
                  // If a signal came first, the daemon stays stopped.
                  boolean isAnew = restart.isDue();
                  if (isAnew) {
                    // For the manager, a service that says it stops must also end.
                    manager.reloading();
                  } else {
                    manager.stopping();
                  }
                  daemon.close();
                  System.out.println("kvtierd stopped; " + daemon.keptWords());
                  if (isAnew) {
                    restart.begin();
                  }
                  stopped.countDown();
                },
                "kvtier-stop"));
    StringBuilder ready = new StringBuilder("kvtierd ready on " + config.socket().path());
    ready.append("; host ").append(ByteSize.words(config.tiers().host().memory().bytes()));
    if (config.tiers().ssd().space().bytes() > 0) {
      ready
          .append(", SSD ")
          .append(ByteSize.words(config.tiers().ssd().space().bytes()))
          .append(" in ")
          .append(config.tiers().ssd().space().directories().getFirst());
      ready.append(
          daemon.isDirectIo() ? " (direct IO)" : " (buffered: the file system has no direct IO)");
    }
    String objects = ObjectTier.describe(config.tiers().object().place());
    if (objects != null) {
      ready.append(", objects in ").append(objects);
    }
    String grpc = daemon.grpcAddress();
    if (grpc != null) {
      ready.append(", gRPC on ").append(grpc);
    }
    String http = daemon.httpAddress();
    if (http != null) {
      ready.append(", HTTP on ").append(http);
    }
    String events = daemon.eventsEndpoint();
    if (events != null) {
      ready.append(", events on ").append(events);
    }
    System.out.println(ready);
    serve(manager, hangup, ready.substring("kvtierd ".length()), daemon::reload);
    manager.watch(daemon::progress);
    restart.watch(daemon::gpuError, () -> System.exit(1));
    try {
      stopped.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    return 0;
  }

  private static String whyNoRestart(KvtierdConfig config) {
    if (!config.copies().gpu().restart()) {
      return "gpu.restart is false";
    }
    return config.tiers().host().keeping().keepNs() > 0
        ? ""
        : "with host.keep 0 what is in memory would be lost";
  }

  /**
   * Tells the service manager that the daemon serves, and only then takes hangups: the manager must
   * not hear of a reload before that.
   */
  static void serve(ServiceManager manager, Hangup hangup, String status, Runnable reload) {
    manager.ready(status);
    hangup.each(reload);
  }
}
