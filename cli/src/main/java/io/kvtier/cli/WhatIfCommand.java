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
      "Shows what the tiers would have hit with half, double or ten times their size, and under other policies.",
      "Only a tier under the policy 'auto' watches: kvtier policy host auto. OF is how many references (blocks that were put or got: a lookup is none) the tier had since it counts, which begins anew when another"
          + " policy takes charge, and SAMPLED how many of them stand behind the figures. A tier that has not been full yet since 'auto' came hits what it hits at any size."
    })
final class WhatIfCommand extends DaemonCommand {
  @Override
  int run(KvtierClient client) {
    JsonArray all = new JsonArray();
    Table table =
        new Table("TIER", ">SIZE", "POLICY", ">PREFIX HITS", ">BLOCK HITS", ">SAMPLED", ">OF");
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
          "no tier watches other sizes (policies: "
              + policies
              + "): choose 'kvtier policy host auto', let it see some requests, and ask again");
    }
    if (!isJson()) {
      table.lines().forEach(this::line);
      if (isUncounted) {
        line("Nothing is counted yet: ask again when there were some requests.");
      }
    }
    return 0;
  }
}
