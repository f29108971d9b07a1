package io.kvtier.cli;

import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import io.kvtier.client.CacheClient;
import io.kvtier.protocol.Printable;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import picocli.CommandLine.Command;

/** Shows the tiers, their size classes, and the namespaces whose blocks are in them. */
@Command(
    name = "tiers",
    description = {
      "Shows what the tiers hold, by slot size, and the namespaces.",
      "IN FLIGHT: slots that a client has reserved, or that are being filled or emptied.",
      "Slabs (memory) and files (SSD) are divided into slots; all slots of a slab or file have one"
          + " size. REGIONS: the number of slabs or files with this slot size. Neither REGIONS nor"
          + " FREE SLOTS counts slabs and files that are not divided yet.",
      "On a machine with several NUMA nodes: the memory of the slabs that is meant to be on each"
          + " node (SLABS), and what is there (IN MEMORY)."
    })
final class TiersCommand extends DaemonCommand {
  @Override
  int run(CacheClient client) {
    Report report = report(client);
    if (isJson()) {
      JsonObject answer = new JsonObject();
      for (String field : List.of("tiers", "namespaces")) {
        JsonValue value = report.json().get(field);
        answer.add(field, value == null ? new JsonArray() : value);
      }
      if (report.object() != null) {
        answer.add("object", report.object());
      }
      if (report.numa() != null) {
        answer.add("numa", report.numa());
      }
      line(answer.toString());
      return 0;
    }
    Table tiers =
        new Table(
            "TIER",
            ">USED",
            ">CAPACITY",
            ">FULL",
            ">BLOCKS",
            ">IN FLIGHT",
            ">FREE SLOTS",
            "POLICY",
            "WHERE");
    Table classes = new Table("TIER", ">SLOT", ">REGIONS", ">FREE SLOTS");
    for (Report.Tier tier : report.tiers()) {
      long used = tier.number("bytes_used");
      long capacity = tier.number("bytes_capacity");
      tiers.row(
          tier.name(),
          Units.bytes(used),
          Units.bytes(capacity),
          Units.percent(used, capacity),
          Units.count(tier.number("slots_resident")),
          Units.count(tier.number("slots_in_flight")),
          freeSlots(tier),
          tier.json().getString("policy", "-"),
          where(tier));
      for (JsonObject sizeClass : tier.sizeClasses()) {
        classes.row(
            tier.name(),
            Units.bytes(sizeClass.getLong("slot_bytes", 0)),
            Units.count(sizeClass.getLong("regions", 0)),
            Units.count(sizeClass.getLong("slots_free", 0)));
      }
    }
    JsonObject object = report.object();
    if (object != null) {
      // Nobody knows how many others have stored.
      tiers.row("object", "-", "-", "-", "-", "-", "-", "-", object.getString("store", "?"));
    }
    tiers.lines().forEach(this::line);
    if (!classes.isEmpty()) {
      line("");
      classes.lines().forEach(this::line);
    }
    if (report.numa() != null) {
      line("");
      numaLines(report.numa()).forEach(this::line);
    }
    Table namespaces = NamespacesCommand.table(report);
    if (!namespaces.isEmpty()) {
      line("");
      namespaces.lines().forEach(this::line);
    }
    return 0;
  }

  /** Where the memory is, by NUMA nodes. */
  static List<String> numaLines(JsonObject numa) {
    Table nodes = new Table("NUMA NODE", ">SLABS", ">IN MEMORY", ">PROCESSORS", "GPUS");
    for (JsonObject node : Report.objects(numa, "nodes")) {
      String gpus =
          node.get("gpus") instanceof JsonArray all
              ? all.values().stream().map(JsonValue::asString).collect(Collectors.joining(", "))
              : "";
      nodes.row(
          String.valueOf(node.getLong("node", -1)),
          Units.bytes(node.getLong("slab_bytes", 0)),
          bytes(node.getLong("taken_bytes", -1)),
          Units.count(node.getLong("processors", 0)),
          gpus.isEmpty() ? "-" : gpus);
    }
    long elsewhere = numa.getLong("elsewhere_bytes", 0);
    if (elsewhere > 0) {
      nodes.row("others", "-", bytes(elsewhere), "-", "-");
    }
    List<String> lines = new ArrayList<>(nodes.lines());
    String trouble = numa.getString("trouble", "");
    if (!trouble.isEmpty()) {
      lines.add(
          "Slabs are not bound to NUMA nodes: "
              + Printable.of(trouble)
              + ". 'kvtier doctor' names the cure.");
    }
    return lines;
  }

  private static String bytes(long bytes) {
    return bytes < 0 ? "?" : Units.bytes(bytes);
  }

  /**
   * The count of free slots, in words. Slots of a size exist from the first put of that size:
   * before it, 0 free slots do not mean that the tier is full. Sizes have their own slots, so a sum
   * over sizes says nothing about free space.
   */
  static String freeSlots(Report.Tier tier) {
    return switch (tier.sizeClasses().size()) {
      case 0 -> "-";
      case 1 -> Units.count(tier.number("slots_free"));
      default -> "by size";
    };
  }

  private static String where(Report.Tier tier) {
    String directory = tier.json().getString("directory", "");
    if (directory.isEmpty()) {
      return "memory";
    }
    return directory + (tier.json().getBoolean("direct_io", true) ? "" : " (buffered)");
  }
}
