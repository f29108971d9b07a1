package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import io.kvtier.client.KvtierClient;
import java.util.Locale;
import picocli.CommandLine.Command;

/** What tiers of other sizes, or under other policies, would have hit. */
@Command(
    name = "whatif",
    description = {
      "Shows the hit ratios that the tiers would have had with half, double or ten times their"
          + " size, and under other policies.",
      "With the policy 'auto', the daemon simulates whole requests, under several policies. With"
          + " any other policy, it simulates single blocks, under LRU only. It then can't tell"
          + " prefix hits from block hits: both columns show the block hits. A daemon with tenants"
          + " simulates nothing.",
      "Each put and each get of a block is one access; lookups are not counted. TOTAL is the number"
          + " of all accesses, SAMPLED the number of accesses that were simulated.",
      "An access is a hit if the simulated tier holds the block at that moment. A put can be a hit,"
          + " too: the real tier has evicted the block, so the client puts it again, but the"
          + " simulated tier would still hold it.",
      "BLOCK HITS is the share of SAMPLED that are hits. PREFIX HITS counts only the hits before"
          + " the first missing block of a request.",
      "'auto' chooses between several policies, and can switch by itself from one to another. Each"
          + " switch sets all figures back to 0. All sizes show the same figures until the tier is"
          + " full for the first time."
    })
final class WhatIfCommand extends DaemonCommand {
  @Override
  int run(KvtierClient client) {
    JsonArray all = new JsonArray();
    Table table =
        new Table("TIER", ">SIZE", "POLICY", ">PREFIX HITS", ">BLOCK HITS", ">SAMPLED", ">TOTAL");
    StringBuilder policies = new StringBuilder();
    boolean isUncounted = true;
    for (Report.Tier tier : report(client).tiers()) {
      policies.append(policies.isEmpty() ? "" : ", ").append(tier.name()).append(' ');
      policies.append(tier.json().getString("policy", "-"));
      JsonValue curves = tier.json().get("what_if");
      if (curves == null) {
        continue;
      }
      for (JsonValue each : curves.asArray()) {
        JsonObject one = new JsonObject(each.asObject()).add("tier", tier.name());
        all.add(one);
        long references = one.getLong("references", 0);
        isUncounted &= references == 0;
        table.row(
            tier.name(),
            String.format(Locale.ROOT, "%.4gx", one.getDouble("factor", 0)),
            one.getString("policy", "-"),
            Units.percent(one.getLong("prefix_hits", 0), references),
            Units.percent(one.getLong("block_hits", 0), references),
            Units.count(references),
            Units.count(one.getLong("offered", 0)));
      }
    }
    if (isJson()) {
      line(all.toString());
      out().flush();
    }
    if (all.isEmpty()) {
      throw new Failure(
          Failure.NEGATIVE,
          "this daemon has tenants, so it simulates no tiers of other sizes (policies: "
              + policies
              + ")");
    }
    if (!isJson()) {
      table.lines().forEach(this::line);
      if (isUncounted) {
        line("Nothing is counted yet: ask again after some requests.");
      }
    }
    return 0;
  }
}
