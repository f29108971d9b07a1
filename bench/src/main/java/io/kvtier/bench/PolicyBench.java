package io.kvtier.bench;

import io.kvtier.policies.EvictionPolicies;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.EvictionPolicy.Removal;
import io.kvtier.policies.EvictionPolicy.VictimFilter;
import java.util.Collection;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;

/**
 * An operation of each eviction policy with ten million blocks, in sequences of thirty-two. Hits
 * fall on the blocks of whole sequences in prefix order, the sequences at random with a skew; an
 * eviction comes with the insertion that takes the place.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(
    value = 1,
    jvmArgs = {
      "-Xms4g",
      "-Xmx4g",
      "-XX:+UseSerialGC",
      "-XX:+AlwaysPreTouch",
      "-XX:+UseTransparentHugePages"
    })
@Warmup(iterations = 3, time = 2)
@Measurement(iterations = 5, time = 2)
public class PolicyBench {
  private static final int BLOCKS = 10_000_000;
  private static final int SEQUENCE = 32;
  private static final VictimFilter ANY = block -> true;

  /** The specification. */
  @Param({
    "fifo",
    "lru",
    "sieve",
    "s3fifo",
    "arc",
    "lfu",
    "tinylfu",
    "lineage/lru",
    "lineage/s3fifo",
    "auto"
  })
  public String policy = "";

  private EvictionPolicy subject = EvictionPolicies.create("fifo", 1, 1);
  private final SplittableRandom random = new SplittableRandom(1);
  private long nextKey;
  private int nextHit;
  private int hitsLeft;

  /** Fills the tier. */
  @Setup(Level.Trial)
  public void fill() {
    subject = EvictionPolicies.create(policy, BLOCKS, BLOCKS);
    for (int block = 0; block < BLOCKS; block++) {
      insert(block);
    }
  }

  private void insert(int block) {
    int depth = (int) (nextKey % SEQUENCE);
    long parent = depth == 0 ? EvictionPolicy.NO_PARENT : BenchKeys.mix(nextKey - 1);
    subject.onInsert(block, 4096, BenchKeys.mix(nextKey), depth, parent);
    nextKey++;
  }

  /** A block is used. */
  @Benchmark
  public void hit() {
    if (hitsLeft == 0) {
      double skewed = Math.pow(random.nextDouble(), 3);
      int sequence = (int) (skewed * (BLOCKS / SEQUENCE));
      nextHit = sequence * SEQUENCE;
      hitsLeft = SEQUENCE;
    }
    subject.onHit(nextHit++);
    hitsLeft--;
  }

  /** A block leaves and another takes its place: a victim, a removal, an insertion. */
  @Benchmark
  public int replace() {
    int victim = subject.victim(ANY, 1);
    subject.onRemove(victim, Removal.EVICTED);
    insert(victim);
    return victim;
  }

  /**
   * Runs all that is annotated here, in processes of its own.
   *
   * @param policies the specifications; those above where there is none
   */
  static void run(Report report, boolean quick, List<String> policies) throws Exception {
    OptionsBuilder options = new OptionsBuilder();
    options.include(PolicyBench.class.getName() + "\\.");
    if (!policies.isEmpty()) {
      options.param("policy", policies.toArray(String[]::new));
    }
    if (quick) {
      options.warmupIterations(1).measurementIterations(2).measurementTime(TimeValue.seconds(1));
    }
    Collection<RunResult> results = new Runner(options.build()).run();
    for (RunResult result : results) {
      String operation = result.getPrimaryResult().getLabel();
      String name = result.getParams().getParam("policy") + "_" + operation;
      boolean isThree = operation.equals("replace");
      report.add(
          new Row(
              "policy_10M_" + name + "_ns",
              result.getPrimaryResult().getScore(),
              "ns",
              isThree ? "what three operations may cost" : "what an operation may cost",
              isThree ? 300 : 100));
    }
  }
}
