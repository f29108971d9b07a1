package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonObject.Member;
import com.eclipsesource.json.JsonValue;
import io.kvtier.client.KvtierClient;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** Looks after the object tier's store, through the daemon. */
@Command(
    name = "object",
    description = {
      "Looks after the store of the object tier, through the daemon.",
      "gc: holds object.bytes, by deleting what was not used for longest; removes what dead nodes"
          + " left.",
      "du: counts objects and bytes by namespace.",
      "verify: reads all blocks, or a fraction, and checks them.",
      "remove-namespace: deletes all blocks of a namespace, of all nodes, however young. Stop who"
          + " uses it first: what is put meanwhile may stay, or go.",
      "status: what is under way, or how the last task ended. cancel: ends it.",
      "",
      "Rows of the table: 'young' are objects within object.gc_grace, which stay; 'reserved' are"
          + " kvtier's own, such as logs of what nodes used and the lease of who collects;"
          + " 'unfinished' are uploads that never ended; 'foreign' are not kvtier's, and are left"
          + " alone."
    })
final class ObjectCommand extends DaemonCommand {
  private static final List<String> TASKS =
      List.of("gc", "du", "verify", "remove-namespace", "status", "cancel");
  private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(250);

  @Mixin private Confirmation confirmation;

  @Parameters(
      index = "0",
      arity = "0..1",
      paramLabel = "TASK",
      description = "gc, du, verify, remove-namespace, status or cancel.")
  private String task = "";

  @Parameters(
      index = "1",
      arity = "0..1",
      paramLabel = "WHAT",
      description =
          "verify: the fraction of the blocks, such as 0.1. remove-namespace: which, by its name"
              + " (kvtier tiers) or its fingerprint (also du).")
  private String what = "";

  @Option(names = "--delete", description = "verify: also deletes what is damaged.")
  private boolean delete;

  @Option(names = "--no-wait", description = "Begins the task, and does not wait for its end.")
  private boolean noWait;

  @Override
  int run(KvtierClient client) {
    if (task.isEmpty()) {
      throw new Failure(Failure.USAGE, "which task? " + String.join(", ", TASKS));
    }
    if (!TASKS.contains(task)) {
      throw new Failure(
          Failure.USAGE, "there is no task '" + task + "'; expected " + String.join(", ", TASKS));
    }
    boolean isLook = task.equals("status");
    if (isLook && (!what.isEmpty() || delete)) {
      throw new Failure(Failure.USAGE, "status takes no further words");
    }
    confirm();
    if (!isLook) {
      String begun = begin(client);
      if (noWait || task.equals("cancel")) {
        line(isJson() ? new JsonObject().add("answer", begun).toString() : begun);
        return 0;
      }
    }
    JsonObject report = task(client);
    while (!isLook && report.getString("state", "").equals("running")) {
      sleep();
      report = task(client);
    }
    if (isJson()) {
      line(report.toString());
    } else {
      show(report);
    }
    return isLook || isWell(report) ? 0 : Failure.NEGATIVE;
  }

  /** Before what deletes; wrong words are the daemon's to explain. */
  private void confirm() {
    if (task.equals("remove-namespace") && !what.isEmpty()) {
      confirmation.require("Delete all blocks of namespace '" + what + "', of all nodes");
    } else if (task.equals("gc") && what.isEmpty()) {
      confirmation.require("Delete what the store has beyond object.bytes, and of dead nodes");
    } else if (task.equals("verify") && delete) {
      confirmation.require("Delete what is found damaged");
    }
  }

  /** Whether the task came to its end, and found nothing damaged. */
  private static boolean isWell(JsonObject report) {
    boolean ended =
        switch (report.getString("state", "")) {
          case "failed", "out_of_time", "cancelled" -> false;
          default -> true;
        };
    boolean damaged =
        report.get("corrupt") instanceof JsonObject found && found.getLong("objects", 0) > 0;
    return ended && !damaged;
  }

  private String begin(KvtierClient client) {
    List<String> words = new ArrayList<>(List.of("object", task));
    if (!what.isEmpty()) {
      words.add(what);
    }
    if (delete) {
      words.add("--delete");
    }
    return ask(client, String.join(" ", words));
  }

  /** How far it is, with the names of the namespaces that the daemon knows. */
  private JsonObject task(KvtierClient client) {
    Report report = report(client);
    JsonObject object = report.object();
    if (object == null) {
      throw new Failure(
          Failure.NEGATIVE,
          "there is no object tier: object.store is none in the daemon's configuration");
    }
    if (!(object.get("task") instanceof JsonObject last)) {
      return new JsonObject();
    }
    Map<String, String> names = new HashMap<>();
    report.namespaces().forEach(one -> names.put(one.fingerprint(), one.name()));
    if (last.get("namespaces") instanceof JsonArray namespaces) {
      for (JsonValue one : namespaces) {
        String name = names.get(one.asObject().getString("namespace", ""));
        if (name != null) {
          one.asObject().add("name", name);
        }
      }
    }
    return last;
  }

  private void show(JsonObject report) {
    String reason = report.getString("reason", "");
    String name = report.getString("task", "");
    long calls = report.getLong("calls", 0);
    line(
        "@|bold "
            + (name.isEmpty() ? "no task so far" : name)
            + "|@ "
            + report.getString("state", "?").replace('_', ' ')
            + (reason.isEmpty() ? "" : ", " + reason)
            + String.format(
                Locale.ROOT,
                "; %,d %s in %.1f s",
                calls,
                calls == 1 ? "call" : "calls",
                report.getLong("elapsed_ms", 0) / 1e3));
    Table table = new Table("WHAT", ">OBJECTS", ">BYTES");
    for (Member member : report) {
      if (member.getValue() instanceof JsonObject amount && amount.getLong("objects", 0) > 0) {
        row(table, member.getName().replace('_', ' '), amount);
      }
    }
    if (report.get("namespaces") instanceof JsonArray namespaces) {
      for (JsonValue one : namespaces) {
        JsonObject amount = one.asObject();
        String known = amount.getString("name", "");
        row(
            table,
            "namespace "
                + amount.getString("namespace", "?")
                + (known.isEmpty() ? "" : ", " + known),
            amount);
      }
    }
    if (!table.isEmpty()) {
      table.lines().forEach(this::line);
    }
    names(report, "corrupt_names", "damaged: ");
    names(report, "foreign_names", "not kvtier's: ");
  }

  private static void row(Table table, String what, JsonObject amount) {
    table.row(
        what, Units.count(amount.getLong("objects", 0)), Units.bytes(amount.getLong("bytes", 0)));
  }

  private void names(JsonObject report, String field, String what) {
    if (report.get(field) instanceof JsonArray names) {
      names.forEach(name -> line(what + name.asString()));
    }
  }

  private static void sleep() {
    try {
      TimeUnit.NANOSECONDS.sleep(LOOK_NS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new Failure(Failure.NEGATIVE, "interrupted; the task goes on: kvtier object status");
    }
  }
}
