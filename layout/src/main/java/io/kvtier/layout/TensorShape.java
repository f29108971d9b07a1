package io.kvtier.layout;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * The shape of a tensor in device memory, as the engine's framework reports it.
 *
 * <p>The axes may have any order and any strides, with two conditions:
 *
 * <ul>
 *   <li>No two elements share a byte.
 *   <li>The elements of one cell ({@link KvAxis#DIM}) are adjacent. A tensor without that axis has
 *       cells of one element.
 * </ul>
 *
 * @param axes one letter of {@link KvAxis} for each axis, such as "CBNHD"
 * @param extents the extent of each axis
 * @param strides the stride of each axis, in elements
 */
public record TensorShape(String axes, List<Long> extents, List<Long> strides, int elementBytes) {
  private static final int ELEMENT_BYTES_MAX = 16;

  public TensorShape {
    extents = List.copyOf(extents);
    strides = List.copyOf(strides);
    if (elementBytes < 1 || elementBytes > ELEMENT_BYTES_MAX) {
      throw new IllegalArgumentException(
          "elements of " + elementBytes + " bytes: expected 1 to " + ELEMENT_BYTES_MAX);
    }
    if (axes.isEmpty() || axes.length() != extents.size() || extents.size() != strides.size()) {
      throw new IllegalArgumentException(
          "axes '"
              + axes
              + "' with "
              + extents.size()
              + " extents and "
              + strides.size()
              + " strides: expected one of each for each letter");
    }
    for (int i = 0; i < axes.length(); i++) {
      KvAxis axis = KvAxis.of(axes.charAt(i), axes);
      if (axes.indexOf(axis.letter()) != i) {
        throw new IllegalArgumentException(
            "axes '" + axes + "' have '" + axis.letter() + "' twice: expected each once");
      }
      if (extents.get(i) < 1 || extents.get(i) > Integer.MAX_VALUE) {
        throw new IllegalArgumentException(
            "extent " + extents.get(i) + " of axis '" + axis.letter() + "': expected 1 or more");
      }
      if (axis == KvAxis.DIM && extents.get(i) > 1 && strides.get(i) != 1) {
        throw new IllegalArgumentException(
            "stride "
                + strides.get(i)
                + " of axis 'D': expected 1, since the elements of a cell are copied together");
      }
    }
    requireDisjoint(axes, extents, strides, 0);
  }

  /** A tensor without gaps, whose last axis is the fastest. */
  public static TensorShape contiguous(String axes, List<Long> extents, int elementBytes) {
    List<Long> strides = new ArrayList<>();
    long stride = 1;
    for (int i = extents.size() - 1; i >= 0; i--) {
      strides.addFirst(stride);
      stride = Math.multiplyExact(stride, Math.max(1, extents.get(i)));
    }
    return new TensorShape(axes, extents, strides, elementBytes);
  }

  /** Whether the tensor has the axis. */
  public boolean has(KvAxis axis) {
    return axes.indexOf(axis.letter()) >= 0;
  }

  /** The extent of an axis; 1 where the tensor does not have the axis. */
  public int extent(KvAxis axis) {
    int index = axes.indexOf(axis.letter());
    return index < 0 ? 1 : Math.toIntExact(extents.get(index));
  }

  /** The stride of an axis in bytes; 0 where the tensor does not have the axis. */
  public long strideBytes(KvAxis axis) {
    int index = axes.indexOf(axis.letter());
    return index < 0 ? 0 : strides.get(index) * elementBytes;
  }

  /** The bytes of one cell, which holds the elements of one token, head and plane. */
  public int cellBytes() {
    return Math.multiplyExact(extent(KvAxis.DIM), elementBytes);
  }

  /** The distance from the tensor's first byte to the end of its last byte. */
  public long spanBytes() {
    long last = 0;
    for (int i = 0; i < extents.size(); i++) {
      last = Math.addExact(last, Math.multiplyExact(extents.get(i) - 1, strides.get(i)));
    }
    return Math.multiplyExact(last + 1, elementBytes);
  }

  /** Whether a second tensor of this shape would share a byte with the first at a distance. */
  public boolean overlapsCopyAt(long distanceBytes) {
    if (distanceBytes >= spanBytes()) {
      return false;
    }
    if (distanceBytes == 0 || distanceBytes % elementBytes != 0) {
      return true;
    }
    try {
      requireDisjoint(axes, extents, strides, distanceBytes / elementBytes);
      return false;
    } catch (IllegalArgumentException _) {
      return true;
    }
  }

  /**
   * Checks that the stride of each axis is at least the span of all faster axes.
   *
   * @param further the stride of an additional axis with extent 2, in elements; 0 for none
   */
  private static void requireDisjoint(
      String axes, List<Long> extents, List<Long> strides, long further) {
    record Step(char letter, long extent, long stride) {}
    List<Step> steps = new ArrayList<>();
    for (int i = 0; i < axes.length(); i++) {
      if (extents.get(i) > 1) {
        steps.add(new Step(axes.charAt(i), extents.get(i), strides.get(i)));
      }
    }
    if (further != 0) {
      steps.add(new Step('+', 2, further));
    }
    steps.sort(Comparator.comparingLong(Step::stride));
    long span = 1;
    for (Step step : steps) {
      if (step.stride() < span) {
        throw new IllegalArgumentException(
            "stride "
                + step.stride()
                + " of axis '"
                + step.letter()
                + "' makes elements overlap: expected at least "
                + span
                + ", what the faster axes span");
      }
      span = Math.addExact(Math.multiplyExact(step.extent() - 1, step.stride()), span);
    }
  }
}
