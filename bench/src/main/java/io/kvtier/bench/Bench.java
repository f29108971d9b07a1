package io.kvtier.bench;

import io.kvtier.tiers.ssd.SsdEngine;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;
import picocli.CommandLine.UnmatchedArgumentException;

/** The benchmarks' command line. */
@Command(
    name = "bench",
    mixinStandardHelpOptions = true,
    description = "Measures kvtier and, in the same run, the limits of the machine.",
    subcommands = {
      Bench.LocalCommand.class,
      Bench.GrpcCommand.class,
      Bench.RemoteCommand.class,
      Bench.DirectoryCommand.class,
      Bench.NodeDirectoryCommand.class,
      Bench.PoliciesCommand.class,
      Bench.SsdCommand.class,
      Bench.LedgersCommand.class,
      Bench.CodecsCommand.class,
      Bench.DemotionCommand.class,
      Bench.ObjectCommand.class,
      Bench.TenantsCommand.class,
      Bench.ScalingCommand.class,
      Bench.CollectorsCommand.class,
      Bench.PeerCommand.class,
      Bench.TcpPeerCommand.class,
      Bench.GrpcPeerCommand.class
    })
public final class Bench implements Runnable {
  @Spec private CommandLine.Model.CommandSpec spec;

  private Bench() {}

  public static void main(String[] arguments) {
    System.exit(commandLine().execute(arguments));
  }

  /** The command with all its parts. */
  static CommandLine commandLine() {
    CommandLine commandLine = new CommandLine(new Bench());
    commandLine.setCaseInsensitiveEnumValuesAllowed(true);
    commandLine.setExecutionExceptionHandler((e, failed, parsed) -> {
      MissingProgram missing = MissingProgram.in(e);
      if (missing == null) {
        throw e;
      }
      failed.getErr().println("bench: " + missing.getMessage());
      return failed.getCommandSpec().exitCodeOnExecutionException();
    });
    commandLine.setParameterExceptionHandler((e, arguments) -> {
      CommandLine failed = e.getCommandLine();
      // The whole usage would bury the reason.
      failed.getErr().println("bench: " + e.getMessage());
      UnmatchedArgumentException.printSuggestions(e, failed.getErr());
      failed.getErr().println("see 'scripts/bench " + failed.getCommandName() + " --help'");
      return failed.getCommandSpec().exitCodeOnInvalidInput();
    });
    return commandLine;
  }

  @Override
  public void run() {
    throw new ParameterException(spec.commandLine(), "the part to measure is missing");
  }

  /** Options of every benchmark. */
  abstract static class Measuring implements Callable<Integer> {
    @Option(
        names = "--json",
        paramLabel = "FILE",
        description = "Also writes the rows to FILE, as one JSON array.")
    private @Nullable Path json;

    @Option(names = "--quick", description = "Fewer and shorter rounds: a trial, not a result.")
    private boolean quick;

    abstract void measure(Report report, boolean quick) throws Exception;

    @Override
    public Integer call() throws Exception {
      String machine = Machine.describe();
      Report report = new Report();
      measure(report, quick);
      report.print(System.out, machine);
      if (json != null) {
        report.writeJson(json);
      }
      return 0;
    }
  }

  /** Options of the benchmarks that need a disk. */
  abstract static class MeasuringDisk extends Measuring {
    @Option(
        names = "--directory",
        paramLabel = "DIR",
        description =
            "Folder on the disk to measure, with up to 10 GiB free. Default: target/ of the"
                + " checkout.")
    private @Nullable Path directory;

    Path parent(Setup setup) {
      return directory == null ? setup.root().resolve("target") : directory;
    }
  }

  @Command(name = "directory", description = "The daemon's directory with ten million blocks.")
  static final class DirectoryCommand extends Measuring {
    @Override
    void measure(Report report, boolean quick) throws Exception {
      new DirectoryBench(10_000_000, quick).run(report);
    }
  }

  @Command(
      name = "node-directory",
      description = "The directory of nodes: one node's table, and lookups among a thousand nodes.")
  static final class NodeDirectoryCommand extends Measuring {
    @Override
    void measure(Report report, boolean quick) throws Exception {
      new NodeDirectoryBench(quick).run(report);
    }
  }

  @Command(name = "policies", description = "The eviction policies with ten million blocks.")
  static final class PoliciesCommand extends Measuring {
    @Option(
        names = "--policy",
        split = ",",
        paramLabel = "NAME",
        description = "Measures only these policies; any specification is allowed.")
    private List<String> policies = List.of();

    @Override
    void measure(Report report, boolean quick) throws Exception {
      PolicyBench.run(report, quick, policies);
    }
  }

  @Command(name = "ledgers", description = "The tiers' durable directories with a million rows.")
  static final class LedgersCommand extends Measuring {
    @Override
    void measure(Report report, boolean quick) throws Exception {
      new LedgerBench(report, quick).run();
    }
  }

  @Command(name = "codecs", description = "The codecs on blocks like real ones.")
  static final class CodecsCommand extends Measuring {
    @Option(
        names = "--kv",
        paramLabel = "FILE",
        description = "Blocks of a model, made by bench.kv_values. Default: made-up values.")
    private @Nullable Path kv;

    @Spec private CommandLine.Model.CommandSpec spec;

    @Override
    void measure(Report report, boolean quick) throws Exception {
      try (Arena arena = Arena.ofConfined()) {
        CodecBench.run(report, quick, blocks(arena), arena);
      }
    }

    private KvBlocks blocks(Arena arena) {
      try {
        return kv == null ? KvBlocks.random(arena) : KvBlocks.read(kv, arena);
      } catch (IOException | IllegalArgumentException e) {
        throw new ParameterException(spec.commandLine(), "--kv " + kv + ": " + e.getMessage(), e);
      }
    }
  }

  @Command(name = "object", description = "The object tier's pipeline, against a bare S3 client.")
  static final class ObjectCommand extends Measuring {
    @Option(
        names = "--layout",
        description = "Also objects of several sizes, which the layout was decided by.")
    private boolean layout;

    @Override
    void measure(Report report, boolean quick) throws Exception {
      try (S3ProxyProcess server = S3ProxyProcess.start()) {
        new ObjectBench(server, report, quick).run();
        if (layout) {
          new ObjectLayoutBench(server, report, quick).run();
        }
      }
      new ObjectDownScenario(Setup.ofProperties(quick)).run(report);
    }
  }

  @Command(name = "local", description = "The clients of this machine, over shared memory.")
  static final class LocalCommand extends Measuring {
    private enum Scenario {
      LATENCY,
      IDLE,
      COPY,
      SMALL,
      KILL
    }

    @Option(
        names = "--only",
        split = ",",
        paramLabel = "SCENARIO",
        description = "Not all, but: latency, idle, copy, small, kill.")
    private List<Scenario> only = List.of(Scenario.values());

    @Override
    void measure(Report report, boolean quick) throws Exception {
      Setup setup = Setup.ofProperties(quick);
      for (Scenario scenario : only) {
        switch (scenario) {
          case LATENCY -> new LatencyScenario(setup).run(report);
          case IDLE -> new IdleScenario(setup).run(report);
          case COPY -> new CopyScenario(setup).run(report);
          case SMALL -> new SmallBlockScenario(setup).run(report);
          case KILL -> new KillScenario(setup).run(report);
        }
      }
    }
  }

  @Command(name = "peer", hidden = true, description = "The other process of a ping-pong.")
  static final class PeerCommand implements Callable<Integer> {
    @Parameters(paramLabel = "SOCKET")
    private Path socket = Path.of("");

    @Override
    public Integer call() throws Exception {
      Peer.serve(socket);
      return 0;
    }
  }

  @Command(name = "grpc", description = "The remote interface, over loopback.")
  static final class GrpcCommand extends Measuring {
    @Override
    void measure(Report report, boolean quick) throws Exception {
      new GrpcScenario(Setup.ofProperties(quick)).run(report);
    }
  }

  @Command(
      name = "remote",
      description = "The clients over gRPC with TLS, against bare gRPC of the same bytes.")
  static final class RemoteCommand extends Measuring {
    @Override
    void measure(Report report, boolean quick) throws Exception {
      new RemoteScenario(Setup.ofProperties(quick)).run(report);
    }
  }

  @Command(name = "ssd", description = "The SSD tier's pipeline, against fio on the same disk.")
  static final class SsdCommand extends MeasuringDisk {
    @Option(
        names = "--engine",
        paramLabel = "ENGINE",
        description = "auto, io_uring or pread; default: ${DEFAULT-VALUE}")
    private SsdEngine engine = SsdEngine.AUTO;

    @Override
    void measure(Report report, boolean quick) throws Exception {
      Setup setup = Setup.ofProperties(quick);
      new SsdScenario(setup, parent(setup), engine).run(report);
    }
  }

  @Command(
      name = "demotion",
      description = "Puts of more than the host tier holds, against fio on the SSD tier's disk.")
  static final class DemotionCommand extends MeasuringDisk {
    @Override
    void measure(Report report, boolean quick) throws Exception {
      Setup setup = Setup.ofProperties(quick);
      new DemotionScenario(setup, parent(setup)).run(report);
      new FullTierScenario(setup, parent(setup)).run(report);
    }
  }

  @Command(
      name = "tenants",
      description = "A modest tenant beside a greedy one, in one daemon and in two.")
  static final class TenantsCommand extends Measuring {
    @Override
    void measure(Report report, boolean quick) throws Exception {
      new TenantsScenario(Setup.ofProperties(quick)).run(report);
    }
  }

  @Command(
      name = "collectors",
      description =
          "What the daemon's garbage collector costs those who wait for it: four of them.")
  static final class CollectorsCommand extends Measuring {
    @Override
    void measure(Report report, boolean quick) throws Exception {
      new CollectorScenario(Setup.ofProperties(quick)).run(report);
    }
  }

  @Command(
      name = "scaling",
      description = "How the cost grows: with clients, blocks, block sizes and SSD directories.")
  static final class ScalingCommand extends MeasuringDisk {
    private enum Axis {
      CLIENTS,
      BLOCKS,
      SIZES,
      DIRECTORIES
    }

    @Option(
        names = "--only",
        split = ",",
        paramLabel = "AXIS",
        description = "Not all, but: clients, blocks, sizes, directories.")
    private List<Axis> only = List.of(Axis.values());

    @Override
    void measure(Report report, boolean quick) throws Exception {
      Setup setup = Setup.ofProperties(quick);
      ScalingScenario scaling = new ScalingScenario(setup);
      for (Axis axis : only) {
        switch (axis) {
          case CLIENTS -> scaling.clients(report);
          case BLOCKS -> scaling.blocks(report);
          case SIZES -> scaling.sizes(report);
          case DIRECTORIES -> new DemotionScenario(setup, parent(setup)).directories(report);
        }
      }
    }
  }

  @Command(name = "tcp-peer", hidden = true, description = "The other process of a TCP echo.")
  static final class TcpPeerCommand implements Callable<Integer> {
    @Override
    public Integer call() throws Exception {
      TcpEcho.serve();
      return 0;
    }
  }

  @Command(name = "grpc-peer", hidden = true, description = "The other process of bare gRPC.")
  static final class GrpcPeerCommand implements Callable<Integer> {
    @Parameters(index = "0", paramLabel = "CERTIFICATE")
    private Path certificate = Path.of("");

    @Parameters(index = "1", paramLabel = "KEY")
    private Path key = Path.of("");

    @Override
    public Integer call() throws Exception {
      BareGrpc.serve(certificate, key);
      return 0;
    }
  }
}
