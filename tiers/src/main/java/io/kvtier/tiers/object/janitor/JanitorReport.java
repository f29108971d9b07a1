package io.kvtier.tiers.object.janitor;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * How far a run of an {@link ObjectJanitor} is, or how it ended.
 *
 * @param task its name; empty before the first run
 * @param reason why the run ended as it did, or a remark; may be empty
 * @param capBytes 0 for none
 */
public record JanitorReport(
    String task, State state, String reason, Effort effort, long capBytes, Uses uses, Finds finds) {
  /**
   * The effort of a run.
   *
   * @param calls on the store
   * @param passes looks over the whole store, the one under way included
   */
  public record Effort(long elapsedMs, long calls, int passes) {}

  /**
   * The uses of objects that a run knows.
   *
   * @param logs that were read
   * @param objects whose use the logs tell
   */
  public record Uses(int logs, int objects) {}

  /**
   * The findings of a run.
   *
   * @param unfinished uploads and temporary files of dead writers that were removed
   * @param namespaces by name; only the task du fills it
   * @param corruptNames the first of them
   * @param foreignNames the first of them
   */
  public record Finds(
      long unfinished,
      Map<JanitorCount, Amount> amounts,
      List<Namespace> namespaces,
      List<String> corruptNames,
      List<String> foreignNames) {
    public Finds {
      amounts = Map.copyOf(amounts);
      namespaces = List.copyOf(namespaces);
      corruptNames = List.copyOf(corruptNames);
      foreignNames = List.copyOf(foreignNames);
    }
  }

  /** The state of a run. */
  public enum State {
    /** There was no run yet. */
    IDLE,
    RUNNING,
    DONE,
    CANCELLED,
    /** The run took as long as it may, and has done a part. */
    OUT_OF_TIME,
    /** Another node does the task. */
    BUSY,
    FAILED;

    /** Its name in JSON. */
    public String key() {
      return name().toLowerCase(Locale.ROOT);
    }

    /** For people. */
    String words() {
      return key().replace('_', ' ');
    }
  }

  /** A number of objects, and their bytes. */
  public record Amount(long objects, long bytes) {
    static final Amount NONE = new Amount(0, 0);

    /** For people. */
    String words() {
      return String.format(Locale.ROOT, "%,d objects of %,d bytes", objects, bytes);
    }
  }

  /**
   * The objects of a namespace. The empty name stands for all namespaces that the list has no space
   * for.
   */
  public record Namespace(String name, Amount amount) {}

  /** The objects that were counted. */
  public Amount amount(JanitorCount count) {
    return finds.amounts.getOrDefault(count, Amount.NONE);
  }

  /** For people: a line for each count that is not zero. */
  public String text() {
    StringBuilder text = new StringBuilder();
    text.append(task.isEmpty() ? "nothing" : task).append(": ");
    text.append(state.words());
    if (!reason.isEmpty()) {
      text.append(", ").append(reason);
    }
    text.append(
        String.format(
            Locale.ROOT,
            "%n%d calls, %d passes, %.1f s%n",
            effort.calls,
            effort.passes,
            effort.elapsedMs / 1e3));
    if (capBytes > 0) {
      line(text, "the cap in bytes", "", capBytes);
    }
    for (JanitorCount count : JanitorCount.values()) {
      Amount amount = amount(count);
      if (amount.objects() > 0) {
        line(text, count.meaning(), String.valueOf(amount.objects()), amount.bytes());
      }
    }
    if (finds.unfinished > 0) {
      text.append(finds.unfinished)
          .append(" unfinished writes removed")
          .append(System.lineSeparator());
    }
    for (Namespace namespace : finds.namespaces) {
      line(
          text,
          namespace.name().isEmpty() ? "other namespaces" : namespace.name(),
          String.valueOf(namespace.amount().objects()),
          namespace.amount().bytes());
    }
    finds.corruptNames.forEach(name -> named(text, "damaged", name));
    finds.foreignNames.forEach(name -> named(text, "not kvtier's", name));
    return text.toString();
  }

  private static void line(StringBuilder text, String what, String objects, long bytes) {
    text.append(String.format(Locale.ROOT, "%12s %18d  %s%n", objects, bytes, what));
  }

  private static void named(StringBuilder text, String what, String name) {
    text.append(what).append(": ").append(name).append(System.lineSeparator());
  }

  /** For programs. */
  public String json() {
    JsonObject json = new JsonObject();
    json.add("task", task).add("state", state.key()).add("reason", reason);
    json.add("elapsed_ms", effort.elapsedMs).add("calls", effort.calls);
    json.add("passes", effort.passes);
    json.add("cap_bytes", capBytes).add("use_logs", uses.logs).add("uses", uses.objects);
    json.add("unfinished", finds.unfinished);
    for (JanitorCount count : JanitorCount.values()) {
      json.add(count.key(), json(amount(count)));
    }
    JsonArray spaces = new JsonArray();
    for (Namespace namespace : finds.namespaces) {
      spaces.add(json(namespace.amount()).add("namespace", namespace.name()));
    }
    json.add("namespaces", spaces);
    json.add("corrupt_names", json(finds.corruptNames));
    json.add("foreign_names", json(finds.foreignNames));
    return json.toString();
  }

  private static JsonObject json(Amount amount) {
    return new JsonObject().add("objects", amount.objects()).add("bytes", amount.bytes());
  }

  private static JsonArray json(List<String> names) {
    JsonArray array = new JsonArray();
    names.forEach(array::add);
    return array;
  }
}
