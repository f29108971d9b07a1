package io.kvtier.cli;

import com.eclipsesource.json.JsonObject;
import io.kvtier.client.KvtierClient;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/** The tiers' eviction policies: shows them, or swaps one while the daemon runs. */
@Command(
    name = "policy",
    description = {
      "Shows the eviction policies of the tiers, or changes one: policy [show], policy [set] TIER"
          + " POLICY.",
      "A change loses no block: the new policy gets all of them, in the order of the old policy."
    })
final class PolicyCommand extends DaemonCommand {
  @Parameters(
      index = "0",
      arity = "0..1",
      paramLabel = "TIER",
      description = "host or ssd. Without it, or with show: shows all policies.")
  private @Nullable String first;

  @Parameters(
      index = "1",
      arity = "0..1",
      paramLabel = "POLICY",
      description = {
        "lru, fifo, s3fifo, sieve, arc, tinylfu, lfu, forecast or auto.",
        "The prefix lineage/ in front of a policy's name wraps that policy: lineage/lru. The"
            + " wrapped policy evicts the end of a sequence of blocks before its beginning.",
        "Options follow the name of the policy: s3fifo:small=0.2:ghost=0.5."
      })
  private @Nullable String second;

  @Parameters(index = "2", arity = "0..1", hidden = true, description = "The policy, after set.")
  private @Nullable String third;

  @Override
  int run(KvtierClient client) {
    boolean isSet = "set".equals(first);
    if (isSet && (second == null || third == null)) {
      throw new Failure(
          Failure.USAGE, "policy set needs a tier and a policy: policy set TIER POLICY");
    }
    if ((third != null && !isSet) || ("show".equals(first) && second != null)) {
      throw new Failure(Failure.USAGE, "expected policy show, or policy set TIER POLICY");
    }
    String tier = isSet ? second : "show".equals(first) ? null : first;
    String policy = isSet ? third : second;
    if (tier == null) {
      show(report(client));
      return 0;
    }
    String answer = ask(client, "policy " + tier + (policy == null ? "" : " " + policy));
    if (isJson()) {
      line(new JsonObject().add("tier", tier).add("policy", policy).toString());
    } else {
      line(answer);
    }
    return 0;
  }

  private void show(Report report) {
    JsonObject json = new JsonObject();
    Table table = new Table("TIER", "POLICY", ">BLOCKS");
    for (Report.Tier one : report.tiers()) {
      String name = one.json().getString("policy", "-");
      json.add(one.name(), name);
      table.row(one.name(), name, Units.count(one.number("slots_resident")));
    }
    if (isJson()) {
      line(json.toString());
    } else {
      table.lines().forEach(this::line);
    }
  }
}
