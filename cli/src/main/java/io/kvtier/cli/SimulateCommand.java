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
    description = "Replays a request trace through eviction policies, and says what would be hit.",
    footer = {
      "",
      "The cache starts cold. A request touches its blocks one by one; a miss is inserted at once.",
      "prefix_hits are the leading runs of resident blocks as the requests begin.",
      "Yardsticks: opt, the clairvoyant optimum of block hits; infinite, a cache of every block.",
      "A policy may have options: s3fifo:small=0.2:ghost=0.5. Some wrap another: lineage/lru."
    })
final class SimulateCommand implements Callable<Integer> {
  private static final double[] PLOT_FRACTIONS = {0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5};

  /** How big the cache is. */
  static final class Capacity {
    @Option(
        names = "--capacity-blocks",
        paramLabel = "N",
        split = ",",
        required = true,
        description = "How many blocks the cache holds; several, with commas, for one row each.")
    private @Nullable List<String> blocks;

    @Option(
        names = "--capacity-fraction",
        paramLabel = "F",
        split = ",",
        required = true,
        description = "The same as a share of the trace's distinct blocks, above 0 up to 1.")
    private @Nullable List<String> fractions;
  }

  @Spec private CommandSpec spec;

  @Option(
      names = "--trace",
      paramLabel = "FILE",
      description = "A trace in Mooncake's format, plain or gzip; one to try is in bench/traces.")
  private @Nullable Path traceFile;

  @Option(
      names = "--policy",
      paramLabel = "NAME",
      split = ",",
      description = "The policies, with commas between them.")
  private List<String> policies = new ArrayList<>();

  @ArgGroup(exclusive = true)
  private Capacity capacity = new Capacity();

  @Option(
      names = "--order",
      paramLabel = "ORDER",
      defaultValue = "head-first",
      description =
          "In which order a request touches its blocks: head-first or tail-first. Default: ${DEFAULT-VALUE}.")
  private String orderName;

  @Option(
      names = "--warmup",
      paramLabel = "N",
      defaultValue = "0",
      description = "How many requests to replay before counting. Default: ${DEFAULT-VALUE}.")
  private String warmup;

  @Option(names = "--json", description = "Answers in JSON.")
  private boolean json;

  @Option(
      names = "--plot",
      paramLabel = "FILE.svg",
      description =
          "Draws hit ratios over the cache's size, from half a percent to half the trace.")
  private @Nullable Path plot;

  @Override
  public Integer call() {
    Path traceFile = requireWhole();
    Order order = order();
    int warmupRequests = (int) whole("--warmup", warmup, 0);
    policies.forEach(SimulateCommand::requireKnown);
    checkCapacity();
    Trace trace = MooncakeTrace.read(traceFile);
    if (warmupRequests >= trace.requests()) {
      throw new Failure(
          Failure.USAGE,
          "--warmup is "
              + warmupRequests
              + ", but the trace has "
              + trace.requests()
              + " requests: nothing would be counted; give fewer");
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
      outcomes.forEach(outcome -> rows.add(toJson(outcome)));
      out().println(rows);
    } else {
      print(outcomes);
    }
    out().flush();
    if (plot != null) {
      draw(plot, traceFile, trace, replay);
    }
    return 0;
  }

  private PrintWriter out() {
    return spec.commandLine().getOut();
  }

  // ---- what was asked for

  /** Names everything that was left out: the parser would name one kind of option after another. */
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
          "simulate lacks "
              + String.join(", ", missing)
              + "; for example: kvtier simulate --trace FILE --policy lru,s3fifo --capacity-fraction"
              + " 0.1");
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
        Failure.USAGE, "--order is '" + orderName + "'; give head-first or tail-first");
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
              + "'; give a whole number from "
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
              + "'; give a number above 0 up to 1, as 0.05 for 5 % of the distinct blocks");
    }
    return value;
  }

  // ---- what is answered

  private static JsonObject toJson(Outcome outcome) {
    return new JsonObject()
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

  private void draw(Path file, Path traceFile, Trace trace, Replay replay) {
    CurvePlot curves =
        new CurvePlot(
            "Prefix hits of " + traceFile.getFileName(),
            "cache, share of the trace's distinct blocks",
            "prefix hit ratio",
            PLOT_FRACTIONS[0],
            PLOT_FRACTIONS[PLOT_FRACTIONS.length - 1]);
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
      throw new Failure(
          Failure.USAGE, "the plot " + file + " can't be written: " + e + "; check --plot");
    }
  }
}
