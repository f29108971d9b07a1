package io.kvtier.policies.simulation;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.policies.EvictionPolicies;
import io.kvtier.policies.EvictionPolicy;
import io.kvtier.policies.WhatIf;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * {@code auto} against its members, and its what-if curves against simulations of that size: on the
 * slice in the repository, and on the whole traces where {@code KVTIER_TRACES} has them.
 */
final class AutoOnTracesTest {
  private static final List<String> MEMBERS = List.of("lru", "s3fifo", "sieve", "arc", "lfu");

  private static final double AUTO_APART_MAX = 0.005;

  /** A choice has less to go by in a part of a trace. */
  private static final double AUTO_APART_MAX_SLICE = 0.006;

  @Test
  void slice_autoIsNearTheBestMember() throws IOException {
    Trace trace = Traces.of(Traces.slice());
    // A larger tier is filled too late in the slice for a choice to bear fruit.
    for (double fraction : new double[] {0.01, 0.02, 0.05}) {
      checkAuto(trace, fraction, AUTO_APART_MAX_SLICE);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {Traces.CONVERSATION, Traces.SYNTHETIC})
  void whole_autoIsNearTheBestMember(String name) throws IOException {
    Assumptions.assumeTrue(Traces.isAvailable(name), "KVTIER_TRACES has no " + name);
    Trace trace = Traces.of(Traces.whole(name));
    for (double fraction : new double[] {0.01, 0.02, 0.05, 0.1, 0.25, 0.5}) {
      checkAuto(trace, fraction, AUTO_APART_MAX);
    }
  }

  private static void checkAuto(Trace trace, double fraction, double apartMax) {
    int capacity = (int) Math.round(fraction * trace.distinct());
    for (Order order : Order.values()) {
      Replay replay = new Replay(trace, order, 0);
      double bestPrefix = 0;
      double bestBlock = 0;
      for (String member : MEMBERS) {
        Outcome outcome = replay.run("lineage/" + member, capacity);
        bestPrefix = Math.max(bestPrefix, outcome.prefixHitRatio());
        bestBlock = Math.max(bestBlock, outcome.blockHitRatio());
      }
      Outcome auto = replay.run("auto", capacity);
      String at = fraction + ", " + order.text();
      checkNear(at + ", prefix hits", auto.prefixHitRatio(), bestPrefix, apartMax);
      checkNear(at + ", block hits", auto.blockHitRatio(), bestBlock, apartMax);
    }
  }

  private static void checkNear(String at, double auto, double best, double apartMax) {
    String what = at + ": auto " + auto + ", best member " + best;
    print(what);
    assertTrue(auto > best - apartMax, what);
  }

  @Test
  void slice_whatIfCurvesAreRight() throws IOException {
    checkWhatIf(Traces.of(Traces.slice()), 0.05, 0.01);
  }

  @ParameterizedTest
  @ValueSource(strings = {Traces.CONVERSATION, Traces.SYNTHETIC})
  void whole_whatIfCurvesAreRight(String name) throws IOException {
    Assumptions.assumeTrue(Traces.isAvailable(name), "KVTIER_TRACES has no " + name);
    for (double fraction : new double[] {0.01, 0.02, 0.05, 0.1}) {
      checkWhatIf(Traces.of(Traces.whole(name)), fraction, 0.005);
    }
  }

  private static void checkWhatIf(Trace trace, double fraction, double apartMax) {
    int capacity = (int) Math.round(fraction * trace.distinct());
    for (String member : List.of("lru", "s3fifo")) {
      EvictionPolicy policy =
          EvictionPolicies.create(
              "auto:members=" + member + ":wear=none:shadow=65536", capacity, capacity);
      PolicyCache cache = new PolicyCache(trace, policy, capacity);
      for (int i = 0; i < trace.references(); i++) {
        cache.touch(trace.block(i));
      }
      Replay replay = new Replay(trace, Order.HEAD_FIRST, 0);
      for (WhatIf whatIf : policy.whatIf()) {
        double shadow = (double) whatIf.prefixHits() / whatIf.references();
        double full =
            replay.run(member, (int) Math.round(whatIf.factor() * capacity)).prefixHitRatio();
        String what = fraction + ": " + whatIf + " is " + shadow + ", in full " + full;
        print(what);
        assertTrue(Math.abs(shadow - full) < apartMax, what);
      }
    }
  }

  private static void print(String what) {
    if (Boolean.getBoolean("kvtier.oracle.print")) {
      System.out.println(what);
    }
  }
}
