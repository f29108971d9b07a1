package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonObject.Member;
import com.eclipsesource.json.JsonValue;
import io.kvtier.client.KvtierClient;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
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
      "Maintains the object store through the daemon.",
      "gc: deletes the objects that were unused for longest, until the store holds at most"
          + " object.bytes. It also deletes uploads that never ended, and old records of uses.",
      "du: counts objects and bytes of each namespace.",
      "verify: reads all blocks, or a fraction of them, and checks their bytes.",
      "remove-namespace: deletes all objects of the namespace that --namespace names, of all nodes"
          + " and of any age. Stop its users first: blocks that they store meanwhile may stay.",
      "status: shows the running task, or the result of the last one. cancel: stops the running"
          + " task.",
      "",
      "Rows of the table: 'young' objects are within object.gc_grace and stay. 'reserved' objects"
          + " are kvtier's own records. 'unfinished' are uploads that never ended. 'foreign' objects"
          + " are not kvtier's and are never touched."
    })
final class ObjectCommand extends DaemonCommand {
  private static final List<String> TASKS =
      List.of("gc", "du", "verify", "remove-namespace", "status", "cancel");

  /** For the completions of shells. */
  static final class Tasks implements Iterable<String> {
    @Override
    public Iterator<String> iterator() {
      return TASKS.iterator();
    }
  }

  private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(250);

  @Mixin private Confirmation confirmation;

  @Parameters(
      index = "0",
      arity = "0..1",
      paramLabel = "TASK",
      completionCandidates = Tasks.class,
      description = "gc, du, verify, remove-namespace, status or cancel.")
  private String task = "";

  @Parameters(
      index = "1",
      arity = "0..1",
      paramLabel = "FRACTION",
      description = "verify: the fraction of the blocks to read, such as 0.1. Default: all.")
  private String what = "";

  @Option(
      names = "--namespace",
      paramLabel = "NAME",
      defaultValue = "",
      description =
          "remove-namespace: name of the namespace, as 'kvtier namespaces' shows it, or its"
              + " fingerprint, as 'kvtier object du' shows it.")
  private String namespaceName = "";

  @Option(names = "--delete", description = "verify: deletes damaged objects.")
  private boolean delete;

  @Option(names = "--no-wait", description = "Starts the task and does not wait for its end.")
  private boolean noWait;

  @Override
  int run(KvtierClient client) {
    if (task.isEmpty()) {
      throw new Failure(Failure.USAGE, "a task is missing: " + String.join(", ", TASKS));
    }
    if (!TASKS.contains(task)) {
      throw new Failure(
          Failure.USAGE, "the task is '" + task + "', expected " + String.join(", ", TASKS));
    }
    boolean isLook = task.equals("status");
    requireUsage(isLook);
    // Nobody is asked to confirm what can't be done.
    requireStore(report(client));
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

  private void requireUsage(boolean isLook) {
    boolean isRemoval = task.equals("remove-namespace");
    if (isLook && (!what.isEmpty() || delete)) {
      throw new Failure(Failure.USAGE, "status takes no fraction and no --delete");
    }
    if (isRemoval == namespaceName.isEmpty()) {
      throw new Failure(
          Failure.USAGE,
          isRemoval
              ? "remove-namespace needs --namespace NAME"
              : "--namespace is for remove-namespace only");
    }
    if (isRemoval && !what.isEmpty()) {
      throw new Failure(
          Failure.USAGE, "remove-namespace takes --namespace NAME only, not '" + what + "'");
    }
  }

  /** The object tier of a report; refuses a daemon that has none. */
  static JsonObject requireStore(Report report) {
    JsonObject object = report.object();
    if (object == null) {
      throw new Failure(
          Failure.NEGATIVE,
          "this daemon has no object store: object.store is none in its configuration");
    }
    return object;
  }

  /** Before what deletes; wrong words are the daemon's to explain. */
  private void confirm() {
    if (task.equals("remove-namespace")) {
      confirmation.require("Delete all objects of namespace '" + namespaceName + "', of all nodes");
    } else if (task.equals("gc") && what.isEmpty()) {
      confirmation.require(
          "Delete the objects beyond object.bytes, uploads that never ended, and old records of uses");
    } else if (task.equals("verify") && delete) {
      confirmation.require("Delete every object that is found damaged");
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
    String argument = task.equals("remove-namespace") ? namespaceName : what;
    if (!argument.isEmpty()) {
      words.add(argument);
    }
    if (delete) {
      words.add("--delete");
    }
    return ask(client, String.join(" ", words));
  }

  /** How far it is, with the names of the namespaces that the daemon knows. */
  private JsonObject task(KvtierClient client) {
    Report report = report(client);
    JsonObject object = requireStore(report);
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
