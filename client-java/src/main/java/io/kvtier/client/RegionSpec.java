package io.kvtier.client;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.kvtier.protocol.Protocol;
import java.util.ArrayList;
import java.util.List;
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

  /**
   * Where a tensor lies.
   *
   * @param handle CUDA's IPC handle of its allocation, in hexadecimal digits
   * @param offset of its first byte there
   */
  public record Tensor(String handle, long offset) {}

  public RegionSpec {
    parts = List.copyOf(parts);
    tensors = List.copyOf(tensors);
    events = List.copyOf(events);
    for (Tensor tensor : tensors) {
      requireHandle(tensor.handle());
    }
    events.forEach(RegionSpec::requireHandle);
  }

  private static void requireHandle(String handle) {
    if (handle.length() != HANDLE_DIGITS) {
      throw new IllegalArgumentException(
          "IPC handle '" + handle + "': expected " + HANDLE_DIGITS + " hexadecimal digits");
    }
  }

  /** As the protocol has it. */
  byte[] text() {
    List<String> handles = new ArrayList<>();
    StringBuilder places = new StringBuilder();
    for (Tensor tensor : tensors) {
      String handle = tensor.handle();
      if (!handles.contains(handle)) {
        handles.add(handle);
      }
      places.append("tensor=").append(handles.indexOf(handle));
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
    handles.forEach(handle -> text.append("allocation=").append(handle).append('\n'));
    text.append(places);
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

  private static String numbers(List<Long> all) {
    return all.stream().map(String::valueOf).collect(Collectors.joining(","));
  }
}
