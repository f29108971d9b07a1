package io.kvtier.client;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.kvtier.protocol.Protocol;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * What the daemon needs to know of device memory to copy blocks to and from it: the tensors'
 * shapes, and where they lie.
 *
 * @param device the GPU's UUID or PCI id: ordinals differ between processes
 * @param layers of a block
 * @param blocks how many the tensors have room for
 * @param order how a block's cells follow one another in the tiers, slowest axis first, as "LCND"
 * @param tensors part by part, and layer by layer
 * @param events CUDA's IPC handles, in hexadecimal digits, of events that copies may wait for
 */
public record RegionSpec(
    String device,
    int layers,
    int blocks,
    int blockTokens,
    String order,
    List<Part> parts,
    List<Tensor> tensors,
    List<String> events) {
  /** The hexadecimal digits of CUDA's IPC handles. */
  public static final int HANDLE_DIGITS = 128;

  /**
   * One kind of tensors: one with an axis L for the layers, or one for each layer, all of one
   * shape.
   *
   * @param axes a letter each: L layer, C keys and values, B block, N token, H head, D element
   * @param strides in elements
   */
  public record Part(
      String name, String axes, List<Long> extents, List<Long> strides, int elementBytes) {
    public Part {
      extents = List.copyOf(extents);
      strides = List.copyOf(strides);
    }
  }

  /** What the daemon opens memory by. */
  public sealed interface Memory {}

  /**
   * An allocation of {@code cudaMalloc}.
   *
   * @param handle CUDA's IPC handle, in hexadecimal digits
   */
  public record Allocation(String handle) implements Memory {
    public Allocation {
      requireHandle(handle);
    }
  }

  /** Memory of CUDA's virtual memory management: allocations that lie one behind the other. */
  public record Exported(List<Piece> pieces) implements Memory {
    public Exported {
      pieces = List.copyOf(pieces);
    }
  }

  /**
   * One of them.
   *
   * @param descriptor what {@code cuMemExportToShareableHandle} gave, in this process; the
   *     registration passes a copy of it, and leaves it open
   * @param bytes its size
   */
  public record Piece(int descriptor, long bytes) {}

  /**
   * Where a tensor lies.
   *
   * @param offset of its first byte in the memory
   */
  public record Tensor(Memory memory, long offset) {
    /**
     * In an allocation of {@code cudaMalloc}.
     *
     * @param handle CUDA's IPC handle of it, in hexadecimal digits
     */
    public Tensor(String handle, long offset) {
      this(new Allocation(handle), offset);
    }
  }

  public RegionSpec {
    parts = List.copyOf(parts);
    tensors = List.copyOf(tensors);
    events = List.copyOf(events);
    events.forEach(RegionSpec::requireHandle);
  }

  private static void requireHandle(String handle) {
    if (handle.length() != HANDLE_DIGITS) {
      throw new IllegalArgumentException(
          "IPC handle '" + handle + "': expected " + HANDLE_DIGITS + " hexadecimal digits");
    }
  }

  /**
   * The memory that is passed to the daemon before the registration, in the order of its numbers.
   */
  public List<Piece> pieces() {
    return memories().stream()
        .filter(Exported.class::isInstance)
        .flatMap(memory -> ((Exported) memory).pieces().stream())
        .toList();
  }

  private List<Memory> memories() {
    return tensors.stream().map(Tensor::memory).distinct().toList();
  }

  /**
   * The specification as the body of a registration.
   *
   * @param firstPassed the number of the first of {@link #pieces}
   */
  public byte[] text(int firstPassed) {
    Map<Memory, Integer> numbers = new LinkedHashMap<>();
    StringBuilder allocations = new StringBuilder();
    int passed = firstPassed;
    for (Memory memory : memories()) {
      numbers.put(memory, numbers.size());
      allocations.append("allocation=");
      switch (memory) {
        case Allocation(String handle) -> allocations.append(handle);
        case Exported(List<Piece> pieces) -> {
          allocations.append(passedText(pieces, passed));
          passed += pieces.size();
        }
      }
      allocations.append('\n');
    }
    StringBuilder places = new StringBuilder();
    for (Tensor tensor : tensors) {
      places.append("tensor=").append(numbers.get(tensor.memory()));
      places.append('+').append(tensor.offset()).append('\n');
    }
    StringBuilder text = new StringBuilder();
    text.append("device=").append(device).append('\n');
    text.append("layers=").append(layers).append('\n');
    text.append("blocks=").append(blocks).append('\n');
    text.append("block_tokens=").append(blockTokens).append('\n');
    text.append("order=").append(order).append('\n');
    for (Part part : parts) {
      text.append("part=").append(part.name()).append(':').append(part.axes()).append(':');
      text.append(numbers(part.extents())).append(':').append(numbers(part.strides()));
      text.append(':').append(part.elementBytes()).append('\n');
    }
    text.append(allocations).append(places);
    events.forEach(event -> text.append("event=").append(event).append('\n'));
    byte[] bytes = text.toString().getBytes(UTF_8);
    if (bytes.length > Protocol.REGION_TEXT_BYTES_MAX) {
      throw new IllegalArgumentException(
          "the region takes "
              + bytes.length
              + " bytes to describe, at most "
              + Protocol.REGION_TEXT_BYTES_MAX
              + " are possible");
    }
    return bytes;
  }

  /** Pieces of one size that follow one another are one group. */
  private static String passedText(List<Piece> pieces, int first) {
    StringBuilder text = new StringBuilder("passed:");
    for (int from = 0; from < pieces.size(); ) {
      long bytes = pieces.get(from).bytes();
      int end = from + 1;
      while (end < pieces.size() && pieces.get(end).bytes() == bytes) {
        end++;
      }
      text.append(from == 0 ? "" : ",").append(first + from).append('+').append(end - from);
      text.append(':').append(bytes);
      from = end;
    }
    return text.toString();
  }

  private static String numbers(List<Long> all) {
    return all.stream().map(String::valueOf).collect(Collectors.joining(","));
  }
}
