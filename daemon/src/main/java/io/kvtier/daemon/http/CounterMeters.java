package io.kvtier.daemon.http;

import io.kvtier.daemon.index.KnownTiers;
import io.kvtier.daemon.index.core.Counters;
import io.kvtier.daemon.index.core.TierTraits;
import io.kvtier.protocol.Counter;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import java.util.EnumMap;
import java.util.Map;

/**
 * The daemon's counters as meters, which read the daemon's memory when they are asked. A counter
 * without its own name here has its name in JSON.
 */
final class CounterMeters {
  /**
   * A meter's name.
   *
   * @param unit bytes, seconds, or none
   */
  private record Name(String name, String unit, String help, Tags tags) {
    /** How many of a counter's units the meter's unit is. */
    private double divisor() {
      return unit.equals(SECONDS) ? 1e9 : 1;
    }
  }

  /** The unit of meters of counters in nanoseconds. */
  private static final String SECONDS = "seconds";

  private static final Map<Counter, Name> NAMES = names();

  private CounterMeters() {}

  private static Map<Counter, Name> names() {
    Map<Counter, Name> names = new EnumMap<>(Counter.class);
    KnownTiers.ALL.forEach(tier -> tier(names, tier));
    hits(names, Counter.HITS_OBJECT, "object");
    hits(names, Counter.HITS_GPU, "gpu");
    hits(names, Counter.HITS_NODE, "node");
    names.put(
        Counter.MISSES,
        name("kvtier.misses", "Blocks asked for by gets and found in no tier, or lost on the way"));
    names.put(Counter.ACQUIRE_BLOCKS, name("kvtier.get.blocks", "Blocks asked for by gets"));
    names.put(
        Counter.ACQUIRE_BUSY,
        name(
            "kvtier.get.refused",
            "Blocks asked for by gets and refused, as no slot came free in memory"));
    names.put(Counter.JOINED, name("kvtier.get.joined", "Gets that joined a transfer under way"));
    names.put(Counter.PUT_EXISTS, name("kvtier.put.existing", "Puts of a block already here"));
    names.put(
        Counter.PUT_BUSY,
        name("kvtier.put.refused", "Puts refused, as there was no space or the queue was full"));
    names.put(
        Counter.PUT_ENCODED,
        name("kvtier.put.encoded.blocks", "Blocks put in the encoded form of their namespace"));
    names.put(
        Counter.PUT_RAW,
        name("kvtier.put.raw.blocks", "Blocks put raw into a namespace with an encoding"));
    moves(names, Counter.DEMOTIONS, "host", "ssd");
    moves(names, Counter.PROMOTIONS, "ssd", "host");
    moves(names, Counter.OBJECT_FETCHED, "object", "host");
    // This count includes blocks from SSD, which are also counted as spilled.
    moves(names, Counter.OBJECT_STORED, "any", "object");
    moves(names, Counter.NODE_FETCHED, "node", "host");
    moves(names, Counter.NODE_SERVED, "host", "node");
    names.put(
        Counter.SPILLED,
        name("kvtier.spilled.blocks", "Blocks written from SSD to the object tier"));
    names.put(
        Counter.DROPPED,
        name("kvtier.dropped.blocks", "Blocks that left the last tier they were in"));
    names.put(
        Counter.DELETED, name("kvtier.deleted.blocks", "Blocks deleted or cleared by clients"));
    names.put(
        Counter.NOT_ADMITTED,
        name(
            "kvtier.not.admitted.blocks",
            "Blocks evicted from memory that the SSD tier's admission refused"));
    names.put(
        Counter.CORRUPT, name("kvtier.corrupt.blocks", "Reads whose bytes or key did not verify"));
    names.put(
        Counter.SCRUBBED,
        name("kvtier.scrubbed.blocks", "Blocks on SSD verified in the background"));
    names.put(
        Counter.SCRUBBED_CORRUPT,
        name("kvtier.scrubbed.corrupt.blocks", "Of these, damaged, and dropped"));
    errors(names, Counter.IO_ERRORS, "ssd");
    errors(names, Counter.OBJECT_ERRORS, "object");
    errors(names, Counter.GPU_ERRORS, "gpu");
    errors(names, Counter.NODE_ERRORS, "node");
    link(names, Counter.OBJECT_READ_BYTES, "object", "read");
    link(names, Counter.OBJECT_WRITTEN_BYTES, "object", "write");
    link(names, Counter.NODE_READ_BYTES, "node", "read");
    link(names, Counter.NODE_SERVED_BYTES, "node", "write");
    link(names, Counter.GPU_OFFLOADED_BYTES, "gpu", "read");
    link(names, Counter.GPU_ONBOARDED_BYTES, "gpu", "write");
    link(names, Counter.GPU_PEER_BYTES, "gpu", "peer");
    names.put(
        Counter.NODE_REFUSED,
        name("kvtier.node.refused", "Connections of other nodes that were refused or cut off"));
    names.put(
        Counter.NODE_PUSHED, name("kvtier.node.pushed.blocks", "Blocks pushed to other nodes"));
    names.put(
        Counter.NODE_PUSHED_BYTES,
        new Name("kvtier.node.pushed", "bytes", "Bytes of these blocks", Tags.empty()));
    names.put(
        Counter.NODE_TAKEN,
        name("kvtier.node.taken.blocks", "Blocks that other nodes pushed here"));
    names.put(
        Counter.NODE_TAKEN_BYTES,
        new Name("kvtier.node.taken", "bytes", "Bytes of these blocks", Tags.empty()));
    names.put(
        Counter.NODE_TAKE_REFUSED,
        name(
            "kvtier.node.take.refused",
            "Blocks that other nodes wanted to push and that were not taken"));
    names.put(
        Counter.NODE_TAKE_CORRUPT,
        name(
            "kvtier.node.take.corrupt", "Pushed blocks whose bytes did not match their checksums"));
    names.put(
        Counter.NODES_LEFT,
        name("kvtier.nodes.left", "Other nodes that left, or were not seen any more"));
    names.put(
        Counter.GAUGE_NODES,
        new Name("kvtier.nodes", "nodes", "Other nodes that are known", Tags.empty()));
    names.put(
        Counter.NODE_EXPECTED,
        name("kvtier.node.expected.blocks", "Blocks that came while a node wrote them"));
    names.put(
        Counter.NODE_EXPECTED_BYTES,
        new Name("kvtier.node.expected", "bytes", "Bytes of these blocks", Tags.empty()));
    lost(names, Counter.NODE_EXPECTED_REFUSED, "refused");
    lost(names, Counter.NODE_EXPECTED_LATE, "late");
    lost(names, Counter.NODE_EXPECTED_UNWANTED, "unwanted");
    lost(names, Counter.NODE_EXPECTED_UNREACHABLE, "unreachable");
    lost(names, Counter.NODE_EXPECTED_BROKEN, "broken");
    lost(names, Counter.NODE_EXPECTED_CORRUPT, "corrupt");
    names.put(
        Counter.NODE_PIECES, name("kvtier.node.pieces", "Pieces in which expected blocks came"));
    names.put(
        Counter.GAUGE_EXPECTED,
        new Name("kvtier.expected", "blocks", "Blocks that are expected from nodes", Tags.empty()));
    names.put(
        Counter.GAUGE_FOLLOWED,
        new Name("kvtier.followed", "blocks", "Blocks that nodes expect from here", Tags.empty()));
    names.put(
        Counter.SAVED_PREFILL_NS,
        new Name(
            "kvtier.saved.prefill",
            SECONDS,
            "Time that computing the saved tokens would have taken, at the speed that each engine"
                + " has measured",
            Tags.empty()));
    names.put(
        Counter.SPENT_LOAD_NS,
        new Name(
            "kvtier.spent.load",
            SECONDS,
            "Time that the loads of the saved tokens took, failed ones too",
            Tags.empty()));
    names.put(
        Counter.FOUND_UNTRUE,
        name(
            "kvtier.found.untrue.rows",
            "Rows that the start found and that were not true any more"));
    names.put(
        Counter.GAUGE_INDEX_BYTES,
        new Name("kvtier.index.memory", "bytes", "Memory of directory and policies", Tags.empty()));
    names.put(
        Counter.GAUGE_PUSHED_BYTES,
        new Name(
            "kvtier.pushed", "bytes", "Pushed blocks that nobody has used here", Tags.empty()));
    names.put(
        Counter.GAUGE_ANNOTATION_BYTES,
        new Name("kvtier.annotation.memory", "bytes", "Memory of annotations", Tags.empty()));
    return names;
  }

  private static void tier(Map<Counter, Name> names, TierTraits tier) {
    TierTraits.Counts counts = tier.counts();
    hits(names, counts.hits(), tier.name());
    evictions(names, counts.evictions(), tier.name());
    link(names, counts.readBytes(), tier.name(), "read");
    link(names, counts.writtenBytes(), tier.name(), "write");
    found(names, counts.found(), tier.name());
    TierTraits.Gauges gauges = counts.gauges();
    slots(names, gauges.free(), tier.name(), "free");
    slots(names, gauges.resident(), tier.name(), "resident");
    slots(names, gauges.inFlight(), tier.name(), "in_flight");
    allSlots(names, gauges.slots(), tier.name());
    used(names, gauges.bytes(), tier.name());
    capacity(names, gauges.capacity(), tier.name());
  }

  private static Name name(String name, String help) {
    return new Name(name, "", help, Tags.empty());
  }

  private static void hits(Map<Counter, Name> names, Counter counter, String tier) {
    names.put(
        counter,
        new Name(
            "kvtier.hits",
            "",
            "Blocks asked for by gets and served, by the tier they came from",
            Tags.of("tier", tier)));
  }

  private static void lost(Map<Counter, Name> names, Counter counter, String reason) {
    names.put(
        counter,
        new Name(
            "kvtier.node.expected.lost",
            "",
            "Blocks that were expected from a node in vain, by the reason",
            Tags.of("reason", reason)));
  }

  private static void evictions(Map<Counter, Name> names, Counter counter, String tier) {
    names.put(
        counter,
        new Name("kvtier.evicted.blocks", "", "Blocks evicted from a tier", Tags.of("tier", tier)));
  }

  private static void moves(Map<Counter, Name> names, Counter counter, String from, String to) {
    names.put(
        counter,
        new Name(
            "kvtier.moved.blocks",
            "",
            "Blocks copied from one tier to another",
            Tags.of("from", from, "to", to)));
  }

  private static void errors(Map<Counter, Name> names, Counter counter, String part) {
    names.put(
        counter,
        new Name("kvtier.errors", "", "Transfers that failed, by part", Tags.of("part", part)));
  }

  private static void link(
      Map<Counter, Name> names, Counter counter, String link, String direction) {
    names.put(
        counter,
        new Name(
            "kvtier.link",
            "bytes",
            "Bytes of blocks read from and written to each place",
            Tags.of("link", link, "direction", direction)));
  }

  private static void found(Map<Counter, Name> names, Counter counter, String tier) {
    names.put(
        counter,
        new Name(
            "kvtier.found.blocks", "", "Blocks that the start found again", Tags.of("tier", tier)));
  }

  private static void slots(Map<Counter, Name> names, Counter counter, String tier, String state) {
    names.put(
        counter,
        new Name("kvtier.tier.slots", "", "Slots by state", Tags.of("tier", tier, "state", state)));
  }

  private static void allSlots(Map<Counter, Name> names, Counter counter, String tier) {
    names.put(
        counter,
        new Name(
            "kvtier.tier.slots.all", "", "Slots that a tier is cut into", Tags.of("tier", tier)));
  }

  private static void used(Map<Counter, Name> names, Counter counter, String tier) {
    names.put(
        counter,
        new Name("kvtier.tier.used", "bytes", "Bytes of slots in use", Tags.of("tier", tier)));
  }

  private static void capacity(Map<Counter, Name> names, Counter counter, String tier) {
    names.put(
        counter,
        new Name("kvtier.tier.capacity", "bytes", "All bytes of a tier", Tags.of("tier", tier)));
  }

  /** The name of a counter's meter; the name in JSON if the table has none. */
  private static Name nameOf(Counter counter) {
    Name known = NAMES.get(counter);
    if (known != null) {
      return known;
    }
    String key = counter.key();
    boolean isBytes = key.endsWith("_bytes");
    String words = (isBytes ? key.substring(0, key.length() - 6) : key).replace('_', '.');
    String help = counter.meaning().replaceFirst("^gauge: ", "");
    return new Name(
        "kvtier." + words,
        isBytes ? "bytes" : "",
        Character.toUpperCase(help.charAt(0)) + help.substring(1),
        Tags.empty());
  }

  private static boolean isGauge(Counter counter) {
    return counter.meaning().startsWith("gauge: ");
  }

  /** Makes a meter for each counter. */
  static void register(Counters counters, MeterRegistry registry) {
    for (Counter counter : Counter.values()) {
      Name name = nameOf(counter);
      if (isGauge(counter)) {
        Gauge.builder(name.name, counters, all -> all.get(counter))
            .description(name.help)
            .baseUnit(name.unit.isEmpty() ? null : name.unit)
            .tags(name.tags)
            .register(registry);
      } else {
        FunctionCounter.builder(name.name, counters, all -> all.get(counter) / name.divisor())
            .description(name.help)
            .baseUnit(name.unit.isEmpty() ? null : name.unit)
            .tags(name.tags)
            .register(registry);
      }
    }
  }
}
