package io.kvtier.cli;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** What 'top' shows at a time, as lines with marks for colours. */
final class TopFrame {
  private static final int BAR = 20;
  private static final long LATE_MS = 2000;

  /** Places and what the line of gets calls them. */
  private static final Map<String, String> WORDS =
      Map.of("host", "memory", "ssd", "SSD", "object", "object store", "gpu", "another GPU");

  private final Places places;
  private final CounterChange change;
  private final List<String> lines = new ArrayList<>();

  private TopFrame(Places places, CounterChange change) {
    this.places = places;
    this.change = change;
  }

  /**
   * The lines of a frame.
   *
   * @param heartbeatMs how long ago the daemon's index last looked round
   */
  static List<String> lines(Path socket, Places places, CounterChange change, long heartbeatMs) {
    TopFrame frame = new TopFrame(places, change);
    frame.heading(socket, heartbeatMs);
    frame.tiers();
    frame.requests();
    frame.links();
    frame.moves();
    frame.errors();
    return frame.lines;
  }

  private void heading(Path socket, long heartbeatMs) {
    long others = Math.max(0, change.value("sessions") - 1);
    lines.add(
        "@|bold kvtierd|@ at "
            + socket
            + ", "
            + (others == 0 ? "no other session" : Units.counted(others, "other session"))
            + ", "
            + Units.counted(change.value("operations"), "request")
            + " in flight"
            + (heartbeatMs > LATE_MS
                ? ", @|red no sign of life from its index for "
                    + Units.nanoseconds(heartbeatMs * 1_000_000)
                    + "|@"
                : ""));
  }

  private void tiers() {
    for (String tier : List.of("host", "ssd")) {
      long capacity = change.value(tier + "_bytes_capacity");
      if (places.has(tier) && capacity > 0) {
        long used = change.value(tier + "_bytes_used");
        int full = (int) Math.min(BAR, Math.round((double) BAR * used / capacity));
        lines.add(
            String.format(
                Locale.ROOT,
                "%-8s%s%s %s of %s, %s",
                tier,
                "#".repeat(full),
                ".".repeat(BAR - full),
                Units.bytes(used),
                Units.bytes(capacity),
                Units.counted(change.value(tier + "_slots_resident"), "block")));
      }
    }
  }

  private void requests() {
    lines.add(
        "lookups "
            + Units.percent(change.more("lookup_hits"), change.more("lookup_blocks"))
            + " of "
            + perSecond("lookup_blocks")
            + " blocks/s found");
    long asked = change.more("acquire_blocks");
    StringBuilder gets = new StringBuilder("gets    ");
    gets.append(Units.percent(Report.hits(change.now()) - Report.hits(change.before()), asked));
    gets.append(" of ").append(perSecond("acquire_blocks")).append(" blocks/s served");
    String separator = ": ";
    for (String place : List.of("host", "ssd", "object", "gpu")) {
      if (places.has(place)) {
        gets.append(separator).append(WORDS.get(place)).append(' ');
        gets.append(Units.percent(change.more("hits_" + place), asked));
        separator = ", ";
      }
    }
    lines.add(gets.toString());
    lines.add("puts    " + perSecond("put_blocks") + " blocks/s stored");
  }

  private void links() {
    Table table = new Table("", ">READ", ">WRITTEN");
    for (String tier : List.of("host", "ssd", "object")) {
      if (places.has(tier)) {
        table.row(
            tier, bytesPerSecond(tier + "_read_bytes"), bytesPerSecond(tier + "_written_bytes"));
      }
    }
    if (places.has("gpu")) {
      table.row(
          "gpu", bytesPerSecond("gpu_offloaded_bytes"), bytesPerSecond("gpu_onboarded_bytes"));
      String peer = bytesPerSecond("gpu_peer_bytes");
      table.row("gpu to gpu", peer, peer);
    }
    lines.addAll(table.lines());
  }

  private void moves() {
    List<String> names = new ArrayList<>(List.of("evictions"));
    if (places.has("ssd")) {
      names.addAll(List.of("demotions", "promotions"));
    }
    names.add("dropped");
    StringBuilder moves = new StringBuilder();
    for (String name : names) {
      moves.append(moves.isEmpty() ? "" : ", ").append(name).append(' ');
      moves.append(perSecond(name)).append("/s");
    }
    lines.add(moves.toString());
  }

  private void errors() {
    for (String name :
        List.of(
            "put_busy",
            "acquire_busy",
            "deadlines",
            "io_errors",
            "object_errors",
            "gpu_errors",
            "corrupt")) {
      if (change.more(name) > 0) {
        lines.add("@|red " + name + " +" + Units.count(change.more(name)) + "|@");
      }
    }
  }

  private String perSecond(String name) {
    return String.format(Locale.ROOT, "%,.0f", change.rate(name));
  }

  private String bytesPerSecond(String name) {
    return Units.bytes(Math.round(change.rate(name))) + "/s";
  }
}
