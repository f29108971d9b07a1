package io.kvtier.tiers.object.janitor;

import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;

/** The counts of a run, from which its reports are made. For the run's thread. */
final class Tally {
  private static final int NAMES_MAX = 100;
  private static final int NAMESPACES_MAX = 10_000;
  private static final String OTHERS = "";

  private final Map<JanitorCount, JanitorReport.Amount> amounts = new EnumMap<>(JanitorCount.class);
  private final Map<String, JanitorReport.Amount> namespaces = new TreeMap<>();
  private final List<String> corruptNames = new ArrayList<>();
  private final List<String> foreignNames = new ArrayList<>();
  private final Consumer<Tally> published;
  private int passes;
  private long unfinished;
  private int useLogs;
  private int uses;
  private String note = "";

  /**
   * A tally of zero.
   *
   * @param published is told when there is something new to report
   */
  Tally(Consumer<Tally> published) {
    this.published = published;
  }

  /** Another look over the store begins: what the one before found no longer counts. */
  void beginPass() {
    passes++;
    for (JanitorCount count : JanitorCount.values()) {
      switch (count) {
        case SEEN, LEFT, YOUNG, RESERVED, FOREIGN -> amounts.remove(count);
        case DELETED, VERIFIED, CORRUPT, UNREADABLE -> {}
      }
    }
    namespaces.clear();
    foreignNames.clear();
  }

  void add(JanitorCount count, long objects, long bytes) {
    amounts.merge(count, new JanitorReport.Amount(objects, bytes), Tally::sum);
  }

  JanitorReport.Amount amount(JanitorCount count) {
    return amounts.getOrDefault(count, JanitorReport.Amount.NONE);
  }

  void addToNamespace(String name, long bytes) {
    String counted =
        namespaces.size() < NAMESPACES_MAX || namespaces.containsKey(name) ? name : OTHERS;
    namespaces.merge(counted, new JanitorReport.Amount(1, bytes), Tally::sum);
  }

  private static JanitorReport.Amount sum(JanitorReport.Amount a, JanitorReport.Amount b) {
    return new JanitorReport.Amount(a.objects() + b.objects(), a.bytes() + b.bytes());
  }

  void foreign(String name) {
    if (foreignNames.size() < NAMES_MAX) {
      foreignNames.add(name);
    }
  }

  void corrupt(String name) {
    if (corruptNames.size() < NAMES_MAX) {
      corruptNames.add(name);
    }
  }

  void unfinished(long count) {
    unfinished += count;
  }

  void uses(UseTable table) {
    useLogs = table.logs();
    uses = table.size();
  }

  /** Adds a remark for a run that ends well. */
  void note(String text) {
    note = note.isEmpty() ? text : note + "; " + text;
  }

  String note() {
    return note;
  }

  void publish() {
    published.accept(this);
  }

  JanitorReport report(
      String task,
      JanitorReport.State state,
      String reason,
      long elapsedMs,
      long calls,
      long capBytes) {
    List<JanitorReport.Namespace> spaces = new ArrayList<>(namespaces.size());
    namespaces.forEach((name, amount) -> spaces.add(new JanitorReport.Namespace(name, amount)));
    return new JanitorReport(
        task,
        state,
        reason,
        new JanitorReport.Effort(elapsedMs, calls, passes),
        capBytes,
        new JanitorReport.Uses(useLogs, uses),
        new JanitorReport.Finds(unfinished, amounts, spaces, corruptNames, foreignNames));
  }
}
