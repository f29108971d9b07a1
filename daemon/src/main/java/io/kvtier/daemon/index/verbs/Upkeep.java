package io.kvtier.daemon.index.verbs;

import com.eclipsesource.json.JsonObject;
import io.kvtier.daemon.index.core.CopyState;
import io.kvtier.daemon.index.core.Directory;
import io.kvtier.daemon.index.core.IndexCore;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.OperatorAnswer;
import io.kvtier.daemon.index.move.BlockStore;
import io.kvtier.daemon.index.space.ResidentTier;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.Status;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The commands of operators that concern blocks: inspects, pins and evicts blocks, and stops new
 * ones. Also changes settings. Confined to the index.
 */
public final class Upkeep {
  static final String USAGE =
      "'set KEY NUMBER', 'evict BLOCKS', 'drain on|off', 'inspect|pin|unpin GROUP KEYHEX"
          + " NAMESPACE'";

  private static final int EVICT_MAX = 4096;

  private final BlockStore store;
  private final Directory directory;
  private final Namespaces namespaces;
  private final LongSupplier clock;
  private final MemorySegment key = Arena.ofAuto().allocate(Protocol.KEY_BYTES_MAX, 8);
  private final Map<Integer, Integer> pins = new HashMap<>();
  private boolean drains;
  private Runnable whenDrainEnds = () -> {};

  public Upkeep(BlockStore store, IndexCore core) {
    this.store = store;
    directory = core.directory();
    namespaces = core.namespaces();
    clock = core.clock();
  }

  /** Whether new blocks are refused. */
  public boolean drains() {
    return drains;
  }

  /** Sets who hears that new blocks are taken again. */
  public void whenDrainEnds(Runnable told) {
    whenDrainEnds = told;
  }

  /** Ends the operators' pins on a block that leaves the directory. */
  public void forgotten(int block) {
    Integer held = pins.isEmpty() ? null : pins.remove(block);
    for (int i = 0; held != null && i < held; i++) {
      store.release(block);
    }
  }

  /**
   * Carries out a command; null when the words are no command of this class.
   *
   * @param tenant of the operator
   */
  @Nullable OperatorAnswer run(List<String> words, int tenant) {
    return switch (words.getFirst()) {
      case "set" -> words.size() == 3 ? set(words.get(1), words.get(2)) : null;
      case "evict" -> words.size() == 2 ? evict(words.get(1)) : null;
      case "drain" -> words.size() == 2 ? drain(words.get(1)) : null;
      case "inspect", "pin", "unpin" ->
          words.size() >= 4
              ? withBlock(
                  tenant,
                  words.getFirst(),
                  words.get(1),
                  words.get(2),
                  String.join(" ", words.subList(3, words.size())))
              : null;
      default -> null;
    };
  }

  private OperatorAnswer set(String setting, String text) {
    long value;
    try {
      value = Long.parseLong(text);
    } catch (NumberFormatException e) {
      return OperatorAnswer.wrong("'" + text + "' is no whole number");
    }
    if (value < 0) {
      return OperatorAnswer.wrong(setting + " can't be " + value + ", expected 0 or more");
    }
    for (ResidentTier tier : store.stack().lower()) {
      String name = tier.traits().name();
      if (setting.equals(name + ".scrub_bytes_per_second")) {
        store.scrubbers().change(tier, value);
        return OperatorAnswer.done(setting + " is " + value);
      }
      if (setting.equals(name + ".write_bytes_per_day")) {
        store.lower().at(tier.number()).budget().change(value);
        return OperatorAnswer.done(setting + " is " + value);
      }
    }
    return OperatorAnswer.wrong("'" + setting + "' can't be set while the daemon runs");
  }

  private OperatorAnswer evict(String blocks) {
    int most;
    try {
      most = Integer.parseInt(blocks);
    } catch (NumberFormatException e) {
      return OperatorAnswer.wrong("'" + blocks + "' is no number of blocks");
    }
    if (most < 1 || most > EVICT_MAX) {
      return OperatorAnswer.wrong("expected 1 to " + EVICT_MAX + " blocks at a time, not " + most);
    }
    int left = store.evictions().evict(most);
    return OperatorAnswer.done(
        new JsonObject()
            .add("evicted", left)
            .add(store.first().traits().name() + "_blocks", store.first().resident())
            .toString());
  }

  private OperatorAnswer drain(String how) {
    switch (how) {
      case "on" -> drains = true;
      case "off" -> {
        drains = false;
        whenDrainEnds.run();
      }
      default -> {
        return OperatorAnswer.wrong("'drain " + how + "': expected on or off");
      }
    }
    return OperatorAnswer.done(drains ? "new blocks are refused" : "new blocks are taken");
  }

  private OperatorAnswer withBlock(int tenant, String verb, String group, String hex, String name) {
    Namespaces.Namespace namespace = namespaces.byOperator(tenant, name);
    if (namespace == null) {
      return new OperatorAnswer(
          Status.MISS,
          "this daemon knows no namespace '"
              + name
              + "': kvtier namespaces shows them; a tenant's is named TENANT/NAME");
    }
    byte[] bytes;
    int number;
    try {
      bytes = HexFormat.of().parseHex(hex);
      number = Integer.parseInt(group);
    } catch (IllegalArgumentException e) {
      return OperatorAnswer.wrong("expected a group and a key in hexadecimal: " + e.getMessage());
    }
    if (bytes.length == 0 || bytes.length > Protocol.KEY_BYTES_MAX) {
      return OperatorAnswer.wrong("a key has 1 to " + Protocol.KEY_BYTES_MAX + " bytes");
    }
    key.fill((byte) 0);
    MemorySegment.copy(MemorySegment.ofArray(bytes), 0, key, 0, bytes.length);
    int block = directory.find(namespace.id(), number, bytes.length, key, 0);
    if (block == Directory.NONE) {
      return new OperatorAnswer(Status.MISS, "the block is in no tier of this node");
    }
    return switch (verb) {
      case "pin" -> pin(block);
      case "unpin" -> unpin(block);
      default -> OperatorAnswer.done(describe(block, namespace));
    };
  }

  private OperatorAnswer pin(int block) {
    if (!store.isVisible(block)) {
      return new OperatorAnswer(Status.PENDING, "the block is not there yet");
    }
    store.pin(block);
    int held = pins.merge(block, 1, Integer::sum);
    return OperatorAnswer.done(
        "pinned" + (held > 1 ? " " + held + " times" : "") + ", until unpin or the daemon's end");
  }

  private OperatorAnswer unpin(int block) {
    Integer held = pins.get(block);
    if (held == null) {
      return new OperatorAnswer(
          Status.MISS, "no operator has pinned the block; a client's pins end with the client");
    }
    if (held == 1) {
      pins.remove(block);
    } else {
      pins.put(block, held - 1);
    }
    store.release(block);
    return OperatorAnswer.done(held == 1 ? "unpinned" : "pinned " + (held - 1) + " times");
  }

  private String describe(int block, Namespaces.Namespace namespace) {
    int pinned = pins.getOrDefault(block, 0);
    JsonObject json =
        new JsonObject()
            .add("namespace_id", namespace.number())
            .add("bytes", namespace.blockBytes());
    for (ResidentTier tier : store.stack().all()) {
      json.add(tier.traits().name(), state(tier, block));
    }
    return json.add("object", directory.has(Directory.FLAG_OBJECT, block))
        .add("uploading", directory.has(Directory.FLAG_UPLOADING, block))
        .add("checksum", String.format(Locale.ROOT, "%08x", directory.checksum(block)))
        .add("hits", directory.hits(block))
        .add("depth", directory.depth(block))
        .add("held_by_clients", directory.holds(block) - pinned)
        .add("operator_pins", pinned)
        .add("retained_s", retainedS(block))
        .add("in_use_by_daemon", directory.uses(block))
        .toString();
  }

  /** The rest of a retention, seconds; 0 if the block is not retained. */
  private long retainedS(int block) {
    return directory.has(Directory.FLAG_RETAINED, block)
        ? Math.max(0, directory.retentions().endNs(block) - clock.getAsLong()) / 1_000_000_000L
        : 0;
  }

  private static String state(ResidentTier line, int block) {
    CopyState state = line.state(block);
    return state == CopyState.NONE ? "no" : state.name().toLowerCase(Locale.ROOT);
  }
}
