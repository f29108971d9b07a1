package io.kvtier.tiers.gpu;

import io.kvtier.layout.BlockOrder;
import io.kvtier.layout.KvLayout;
import io.kvtier.layout.KvPart;
import io.kvtier.layout.Replica;
import io.kvtier.layout.TensorShape;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.UnixSocket;
import io.kvtier.tiers.gpu.DeviceRegionSpec.TensorPlace;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;
import org.jspecify.annotations.Nullable;

/**
 * A {@link DeviceRegionSpec} as text, which is how an engine's process sends it: lines {@code
 * property=value}, of which part, allocation, tensor and event may stand several times, in their
 * order.
 *
 * <pre>
 *   device=GPU-9b6a...     layers=32     blocks=1024     block_tokens=16     order=LCND
 *   block_layers=64     first_layer=32     replica=0/2     optional: of a rank with some layers or heads
 *   part=NAME:AXES:EXTENTS:STRIDES:ELEMENT_BYTES[:BLOCK_HEADS:FIRST_HEAD]     as kv:CBNHD:2,1024,16,8,128:...:2;
 *                                                 two where keys and values lie in tensors of their own
 *   allocation=128 hexadecimal digits, an IPC handle
 *   allocation=passed:FIRST+COUNT:BYTES[,FIRST+COUNT:BYTES...]     descriptors that were passed, by their numbers
 *   tensor=ALLOCATION+OFFSET     the allocation by its number, from 0; the offset in bytes
 *   event=128 hexadecimal digits, an IPC handle
 * </pre>
 */
public final class RegionText {
  /** The most tensors of a region. */
  public static final int TENSORS_MAX = 2 * KvLayout.LAYERS_MAX;

  /** The most events of a region. */
  public static final int EVENTS_MAX = 64;

  /** The most pieces of passed memory of a region: 320 GiB of those that torch makes. */
  public static final int PIECES_MAX = 1 << 14;

  private static final int PARTS_MAX = TENSORS_MAX;
  private static final String PASSED = "passed:";
  private static final int PASSED_FIELDS = 3;
  private static final int PART_FIELDS = 5;
  private static final int PART_FIELDS_OF_RANK = 7;

  private final Map<String, String> single = new HashMap<>();
  private final List<KvPart> parts = new ArrayList<>();
  private final List<DeviceMemory> allocations = new ArrayList<>();
  private final List<String> tensors = new ArrayList<>();
  private final List<IpcHandle> events = new ArrayList<>();

  private final IntFunction<@Nullable Descriptor> passed;
  private int pieces;

  private RegionText(IntFunction<@Nullable Descriptor> passed) {
    this.passed = passed;
  }

  /**
   * Reads a text.
   *
   * @param passed gives the descriptor of a number, once; null: there is none
   * @throws IllegalArgumentException naming what is wrong with it; descriptors that it names before
   *     that are used up
   */
  public static DeviceRegionSpec parse(String text, IntFunction<@Nullable Descriptor> passed) {
    RegionText read = new RegionText(passed);
    try {
      for (String line : text.split("\n", -1)) {
        if (!line.isEmpty()) {
          read.line(line);
        }
      }
      return read.spec();
    } catch (ArithmeticException e) {
      read.discard();
      throw new IllegalArgumentException("the region's sizes are beyond 64 bits", e);
    } catch (IllegalArgumentException e) {
      read.discard();
      throw e;
    }
  }

  /** Whether a text describes tensors in host memory; the rest of the text may be malformed. */
  public static boolean isOnHost(String text) {
    return text.lines().anyMatch(("device=" + DeviceRegionSpec.HOST)::equals);
  }

  private void discard() {
    for (DeviceMemory memory : allocations) {
      if (memory instanceof PassedMemory given) {
        given.close();
      }
    }
  }

  private void line(String line) {
    int equals = line.indexOf('=');
    String value = line.substring(equals + 1);
    switch (line.substring(0, Math.max(0, equals))) {
      case "part" -> add(parts, part(value), PARTS_MAX, "parts");
      case "allocation" -> allocate(value);
      case "tensor" -> add(tensors, value, TENSORS_MAX, "tensors");
      case "event" -> add(events, handle(value), EVENTS_MAX, "events");
      case "device",
          "layers",
          "blocks",
          "block_tokens",
          "order",
          "block_layers",
          "first_layer",
          "replica" -> {
        if (single.put(line.substring(0, equals), value) != null) {
          throw new IllegalArgumentException("line '" + line + "': stands there twice");
        }
      }
      default ->
          throw new IllegalArgumentException(
              "line '"
                  + line
                  + "': expected device, layers, blocks, block_tokens, order, block_layers,"
                  + " first_layer, replica, part, allocation, tensor or event, each with '=' and a"
                  + " value");
    }
  }

  private static <T> void add(List<T> list, T item, int most, String what) {
    if (list.size() == most) {
      throw new IllegalArgumentException("more than " + most + " " + what + " of a region");
    }
    list.add(item);
  }

  private DeviceRegionSpec spec() {
    int layers = number("layers");
    if (layers > KvLayout.LAYERS_MAX) {
      throw new IllegalArgumentException(
          layers + " layers: expected at most " + KvLayout.LAYERS_MAX + " of a region");
    }
    KvLayout layout =
        new KvLayout(
            layers,
            number("blocks"),
            number("block_tokens"),
            BlockOrder.parse(single.getOrDefault("order", "LCND")),
            parts,
            single.containsKey("block_layers") ? number("block_layers") : layers,
            single.containsKey("first_layer") ? number("first_layer") : 0);
    if (layout.blockLayers() > KvLayout.LAYERS_MAX) {
      throw new IllegalArgumentException(
          layout.blockLayers() + " layers of a block: expected at most " + KvLayout.LAYERS_MAX);
    }
    List<TensorPlace> places = new ArrayList<>();
    for (String tensor : tensors) {
      places.add(place(tensor));
    }
    return new DeviceRegionSpec(required("device"), layout, replica(), places, events);
  }

  private Replica replica() {
    String text = single.get("replica");
    if (text == null) {
      return Replica.ONLY;
    }
    String[] fields = text.split("/", -1);
    if (fields.length != 2) {
      throw new IllegalArgumentException(
          "replica '" + text + "': expected NUMBER/COUNT, as in 0/2");
    }
    return new Replica(
        Math.toIntExact(number(fields[0], "the number of a replica")),
        Math.toIntExact(number(fields[1], "the count of replicas")));
  }

  private String required(String name) {
    String value = single.get(name);
    if (value == null) {
      throw new IllegalArgumentException("a region without '" + name + "'");
    }
    return value;
  }

  private int number(String name) {
    return Math.toIntExact(number(required(name), name));
  }

  private static long number(String text, String what) {
    try {
      return Long.parseLong(text);
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException(what + " is '" + text + "': expected a number", e);
    }
  }

  private static List<Long> numbers(String text, String what) {
    List<Long> all = new ArrayList<>();
    for (String one : text.split(",", -1)) {
      all.add(number(one, what));
    }
    return all;
  }

  private static KvPart part(String text) {
    String[] fields = text.split(":", -1);
    if (fields.length != PART_FIELDS && fields.length != PART_FIELDS_OF_RANK) {
      throw new IllegalArgumentException(
          "part '"
              + text
              + "': expected NAME:AXES:EXTENTS:STRIDES:ELEMENT_BYTES[:BLOCK_HEADS:FIRST_HEAD]");
    }
    TensorShape shape =
        new TensorShape(
            fields[1],
            numbers(fields[2], "an extent"),
            numbers(fields[3], "a stride"),
            Math.toIntExact(number(fields[4], "the bytes of an element")));
    return fields.length == PART_FIELDS
        ? KvPart.of(fields[0], shape)
        : new KvPart(
            fields[0],
            shape,
            Math.toIntExact(number(fields[5], "the heads of a block")),
            Math.toIntExact(number(fields[6], "the first head")));
  }

  private void allocate(String value) {
    if (allocations.size() == TENSORS_MAX) {
      throw new IllegalArgumentException("more than " + TENSORS_MAX + " allocations of a region");
    }
    allocations.add(value.startsWith(PASSED) ? passed(value) : handle(value));
  }

  private PassedMemory passed(String text) {
    List<PassedMemory.Piece> found = new ArrayList<>();
    try {
      for (String group : text.substring(PASSED.length()).split(",", -1)) {
        String[] fields = group.split("[+:]", -1);
        if (fields.length != PASSED_FIELDS) {
          throw new IllegalArgumentException(
              "allocation '"
                  + text
                  + "': expected passed:FIRST+COUNT:BYTES, and more after commas");
        }
        int first = Math.toIntExact(number(fields[0], "the first number of what was passed"));
        int count = Math.toIntExact(number(fields[1], "the count of what was passed"));
        long bytes = number(fields[2], "the bytes of what was passed");
        if (first < 0 || count <= 0 || bytes <= 0 || count > PIECES_MAX - pieces) {
          throw new IllegalArgumentException(
              "allocation '"
                  + text
                  + "': expected sizes above 0, and at most "
                  + PIECES_MAX
                  + " pieces of a region");
        }
        pieces += count;
        for (int i = 0; i < count; i++) {
          Descriptor descriptor = passed.apply(Math.addExact(first, i));
          if (descriptor == null) {
            throw new IllegalArgumentException(
                "allocation '" + text + "': number " + (first + i) + " was not passed, or used");
          }
          found.add(new PassedMemory.Piece(descriptor, bytes));
        }
      }
      return new PassedMemory(found);
    } catch (ArithmeticException | IllegalArgumentException e) {
      found.forEach(piece -> UnixSocket.discard(piece.descriptor()));
      throw e;
    }
  }

  private static IpcHandle handle(String digits) {
    try {
      return IpcHandle.parse(digits);
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException(
          "IPC handle '" + digits + "': expected " + 2 * IpcHandle.BYTES + " hexadecimal digits",
          e);
    }
  }

  private TensorPlace place(String text) {
    int plus = text.indexOf('+');
    if (plus < 0) {
      throw new IllegalArgumentException("tensor '" + text + "': expected ALLOCATION+OFFSET");
    }
    long allocation = number(text.substring(0, plus), "the allocation of a tensor");
    if (allocation < 0 || allocation >= allocations.size()) {
      throw new IllegalArgumentException(
          "tensor '"
              + text
              + "': there are "
              + allocations.size()
              + " allocations, counted from 0");
    }
    return new TensorPlace(
        allocations.get((int) allocation),
        number(text.substring(plus + 1), "the offset of a tensor"));
  }
}
