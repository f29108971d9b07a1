package io.kvtier.cli;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import io.kvtier.policies.EvictionPolicies;
import io.kvtier.policies.simulation.Order;
import io.kvtier.policies.simulation.Outcome;
import io.kvtier.policies.simulation.Replay;
import io.kvtier.policies.simulation.Trace;
import java.io.IOException;
import java.io.PrintWriter;
import java.math.BigDecimal;
import java.math.MathContext;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Replays a trace through the policies that the daemon runs. */
@Command(
    name = "simulate",
    mixinStandardHelpOptions = true,
    customSynopsis = {
      "Usage: kvtier simulate --trace=FILE --policy=NAME[,NAME]...",
      "                       (--capacity-blocks=N[,N]... | --capacity-fraction=F[,F]...)",
      "                       [OPTION]..."
    },
    synopsisHeading = "",
    description = "Replays a request trace through eviction policies, and shows their hit ratios.",
    footer = {
      "",
      "The cache starts empty. A request touches its blocks one by one; a missing block is inserted"
          + " immediately.",
      "prefix_hits counts the blocks at the start of each request that are in the cache without a"
          + " gap.",
      "Two upper bounds can be named like policies: opt, the most block hits that are possible;"
          + " infinite, a cache that keeps every block.",
      "A policy can have options: s3fifo:small=0.2:ghost=0.5.",
      "The prefix lineage/ in front of a policy's name wraps that policy: lineage/lru. The wrapped"
          + " policy evicts the end of a sequence of blocks before its beginning."
    })
final class SimulateCommand implements Callable<Integer> {
  private static final double[] PLOT_FRACTIONS = {0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5};

  /** The size of the cache. */
  static final class Capacity {
    @Option(
        names = "--capacity-blocks",
        paramLabel = "N",
        split = ",",
        required = true,
        description =
            "Capacity of the cache in blocks. Several, separated by commas, give a row each.")
    private @Nullable List<String> blocks;

    @Option(
        names = "--capacity-fraction",
        paramLabel = "F",
        split = ",",
        required = true,
        description = "Capacity as a share of the trace's distinct blocks, above 0 and up to 1.")
    private @Nullable List<String> fractions;
  }

  @Spec private CommandSpec spec;

  @Option(
      names = "--trace",
      paramLabel = "FILE",
      description =
          "A trace in Mooncake's format, plain or gzip; 'kvtier trace record' writes one. An"
              + " example is in bench/traces.")
  private @Nullable Path traceFile;

  @Option(
      names = "--policy",
      paramLabel = "NAME",
      split = ",",
      description = "Policies, separated by commas.")
  private List<String> policies = new ArrayList<>();

  @Option(
      names = "--plugins",
      paramLabel = "FOLDER",
      description =
          "A folder of jars with more policies, such as the daemon's plugins.directory. Their code"
              + " runs in this process.")
  private @Nullable Path plugins;

  @ArgGroup(exclusive = true)
  private Capacity capacity = new Capacity();

  @Option(
      names = "--order",
      paramLabel = "ORDER",
      defaultValue = "head-first",
      description =
          "Order in which a request touches its blocks: head-first or tail-first. Default:"
              + " ${DEFAULT-VALUE}.")
  private String orderName;

  @Option(
      names = "--warmup",
      paramLabel = "N",
      defaultValue = "0",
      description = "Number of requests to replay before counting. Default: ${DEFAULT-VALUE}.")
  private String warmup;

  @Option(
      names = "--block-bytes",
      paramLabel = "SIZE",
      defaultValue = "",
      description =
          "Size of a block, such as 64KiB. With a size, --json also prints capacities in bytes, and"
              + " --plot shows capacities in GiB. Default: the size that the trace contains, if it"
              + " contains one; traces of 'kvtier trace record' do.")
  private String blockBytesText;

  @Option(names = "--json", description = "Prints JSON.")
  private boolean json;

  @Option(
      names = "--plot",
      paramLabel = "FILE.svg",
      description =
          "Draws hit ratios over the size of the cache, from half a percent to half of the trace's"
              + " distinct blocks.")
  private @Nullable Path plot;

  @Override
  public Integer call() {
    Path traceFile = requireWhole();
    Order order = order();
    int warmupRequests = (int) whole("--warmup", warmup, 0);
    if (plugins != null) {
      PolicyPlugins.load(plugins);
    }
    policies.forEach(SimulateCommand::requireKnown);
    checkCapacity();
    long askedBytes = blockBytes();
    MooncakeTrace.Contents contents = MooncakeTrace.read(traceFile);
    Trace trace = contents.trace();
    long blockBytes = askedBytes > 0 ? askedBytes : contents.blockBytes();
    if (warmupRequests >= trace.requests()) {
      throw new Failure(
          Failure.USAGE,
          "--warmup is "
              + warmupRequests
              + ", but the trace has "
              + trace.requests()
              + " requests: nothing would be counted; give a smaller number");
    }
    Replay replay = new Replay(trace, order, warmupRequests);
    List<Outcome> outcomes = new ArrayList<>();
    for (String policy : policies) {
      for (int blocks : capacities(trace)) {
        outcomes.add(replay.run(policy, blocks));
      }
    }
    if (json) {
      JsonArray rows = new JsonArray();
      outcomes.forEach(outcome -> rows.add(toJson(outcome, blockBytes)));
      out().println(rows);
    } else {
      print(outcomes);
    }
    out().flush();
    if (plot != null) {
      draw(plot, traceFile, trace, blockBytes, replay);
    }
    return 0;
  }

  /** A size in GiB with three significant digits. */
  static String gib(double bytes) {
    double gib = bytes / (1 << 30);
    return new BigDecimal(gib).round(new MathContext(3)).stripTrailingZeros().toPlainString();
  }

  private PrintWriter out() {
    return spec.commandLine().getOut();
  }

  // ---- what was asked for

  /**
   * Requires all mandatory options, and names all that are absent: the parser would name only one
   * kind at a time.
   */
  private Path requireWhole() {
    List<String> missing = new ArrayList<>();
    if (traceFile == null) {
      missing.add("--trace FILE");
    }
    if (policies.isEmpty()) {
      missing.add("--policy NAME");
    }
    if (capacity.blocks == null && capacity.fractions == null) {
      missing.add("--capacity-blocks N or --capacity-fraction F");
    }
    if (traceFile == null || !missing.isEmpty()) {
      throw new Failure(
          Failure.USAGE,
          "missing: "
              + String.join(", ", missing)
              + "; for example: kvtier simulate --trace FILE --policy lru,s3fifo"
              + " --capacity-fraction 0.1");
    }
    return traceFile;
  }

  private Order order() {
    for (Order order : Order.values()) {
      if (order.text().equals(orderName)) {
        return order;
      }
    }
    throw new Failure(
        Failure.USAGE, "--order is '" + orderName + "', expected head-first or tail-first");
  }

  /** Refuses a specification before the trace is read. */
  private static void requireKnown(String policy) {
    if (Replay.YARDSTICKS.contains(policy)) {
      return;
    }
    try {
      EvictionPolicies.create(policy, 16, 16);
    } catch (IllegalArgumentException e) {
      throw new Failure(
          Failure.USAGE,
          "--policy: "
              + e.getMessage()
              + "; the yardsticks are "
              + String.join(", ", Replay.YARDSTICKS));
    }
  }

  private void checkCapacity() {
    if (capacity.blocks != null) {
      capacity.blocks.forEach(text -> whole("--capacity-blocks", text, 1));
    }
    if (capacity.fractions != null) {
      capacity.fractions.forEach(SimulateCommand::fraction);
    }
  }

  private List<Integer> capacities(Trace trace) {
    List<Integer> capacities = new ArrayList<>();
    if (capacity.blocks != null) {
      capacity.blocks.forEach(text -> capacities.add((int) whole("--capacity-blocks", text, 1)));
    }
    if (capacity.fractions != null) {
      capacity.fractions.forEach(text -> capacities.add(share(trace, fraction(text))));
    }
    return capacities;
  }

  private long blockBytes() {
    try {
      return blockBytesText.isEmpty() ? 0 : Units.parseBytes(blockBytesText);
    } catch (IllegalArgumentException e) {
      throw new Failure(Failure.USAGE, "--block-bytes is " + e.getMessage());
    }
  }

  private static int share(Trace trace, double fraction) {
    return (int) Math.max(1, Math.round(fraction * trace.distinct()));
  }

  private static long whole(String option, String text, int min) {
    long value;
    try {
      value = Long.parseLong(text.strip());
    } catch (NumberFormatException e) {
      value = Long.MIN_VALUE;
    }
    if (value < min || value > Integer.MAX_VALUE / 4) {
      throw new Failure(
          Failure.USAGE,
          option
              + " is '"
              + text
              + "', expected a whole number from "
              + min
              + " to "
              + Integer.MAX_VALUE / 4);
    }
    return value;
  }

  private static double fraction(String text) {
    double value;
    try {
      value = Double.parseDouble(text.strip());
    } catch (NumberFormatException e) {
      value = Double.NaN;
    }
    if (!(value > 0 && value <= 1)) {
      throw new Failure(
          Failure.USAGE,
          "--capacity-fraction is '"
              + text
              + "', expected a number above 0 and up to 1, such as 0.05 for 5 % of the distinct"
              + " blocks");
    }
    return value;
  }

  // ---- what is answered

  private static JsonObject toJson(Outcome outcome, long blockBytes) {
    JsonObject json =
        new JsonObject()
            .add("policy", outcome.policy())
            .add("order", outcome.order().text())
            .add("capacity_blocks", outcome.capacityBlocks())
            .add("references", outcome.references())
            .add("block_hits", outcome.blockHits())
            .add("prefix_hits", outcome.prefixHits())
            .add("block_hit_ratio", Json.value(outcome.blockHitRatio()))
            .add("prefix_hit_ratio", Json.value(outcome.prefixHitRatio()))
            .add("evictions", outcome.evictions())
            .add("metadata_bytes", outcome.metadataBytes())
            .add("ns_per_operation", Json.value(Math.round(outcome.nsPerOperation() * 10) / 10.0));
    return blockBytes > 0
        ? json.add("capacity_bytes", outcome.capacityBlocks() * blockBytes)
        : json;
  }

  private void print(List<Outcome> outcomes) {
    Table table =
        new Table(
            "policy",
            "order",
            ">capacity_blocks",
            ">references",
            ">block_hits",
            ">prefix_hits",
            ">block_hit_ratio",
            ">prefix_hit_ratio",
            ">evictions",
            ">metadata_bytes",
            ">ns_per_operation");
    for (Outcome outcome : outcomes) {
      table.row(
          outcome.policy(),
          outcome.order().text(),
          String.valueOf(outcome.capacityBlocks()),
          String.valueOf(outcome.references()),
          String.valueOf(outcome.blockHits()),
          String.valueOf(outcome.prefixHits()),
          String.format(Locale.ROOT, "%.4f", outcome.blockHitRatio()),
          String.format(Locale.ROOT, "%.4f", outcome.prefixHitRatio()),
          String.valueOf(outcome.evictions()),
          String.valueOf(outcome.metadataBytes()),
          String.format(Locale.ROOT, "%.1f", outcome.nsPerOperation()));
    }
    table.lines().forEach(line -> out().println(DaemonCommand.styled(line)));
  }

  private void draw(Path file, Path traceFile, Trace trace, long blockBytes, Replay replay) {
    boolean isSized = blockBytes > 0;
    CurvePlot curves =
        new CurvePlot(
            "Prefix hits of " + traceFile.getFileName(),
            isSized
                ? "cache size in GiB, blocks of " + Units.bytes(blockBytes)
                : "cache size, share of the trace's distinct blocks",
            "prefix hit ratio",
            PLOT_FRACTIONS[0],
            PLOT_FRACTIONS[PLOT_FRACTIONS.length - 1],
            isSized
                ? fraction -> gib((double) share(trace, fraction) * blockBytes)
                : CurvePlot::percent);
    for (String policy : policies) {
      List<CurvePlot.Point> points = new ArrayList<>();
      for (double fraction : PLOT_FRACTIONS) {
        Outcome outcome = replay.run(policy, share(trace, fraction));
        points.add(new CurvePlot.Point(fraction, outcome.prefixHitRatio()));
      }
      curves.add(policy, points);
    }
    try {
      Files.writeString(file, curves.svg());
    } catch (IOException e) {
      throw new Failure(Failure.USAGE, "--plot: '" + file + "' can't be written: " + e);
    }
  }
}
