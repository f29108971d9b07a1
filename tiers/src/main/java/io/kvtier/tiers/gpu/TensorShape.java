package io.kvtier.tiers.gpu;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * How a tensor lies in device memory, as the framework that made it says: its axes by their letters
 * ({@link KvAxis}), extents, and strides in elements.
 *
 * <p>Any order of any strides will do, as long as no two elements share a byte, and the elements of
 * one cell ({@link KvAxis#DIM}) lie side by side. A tensor without that axis has cells of one
 * element.
 *
 * @param axes one letter an axis, as "CBNHD"
 * @param strides in elements, as long as the extents
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

  /** A tensor without gaps, its last axis the fastest. */
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

  /** The extent of an axis; 1 of an axis that the tensor has not. */
  public int extent(KvAxis axis) {
    int index = axes.indexOf(axis.letter());
    return index < 0 ? 1 : Math.toIntExact(extents.get(index));
  }

  /** The stride of an axis; 0 of an axis that the tensor has not. */
  public long strideBytes(KvAxis axis) {
    int index = axes.indexOf(axis.letter());
    return index < 0 ? 0 : strides.get(index) * elementBytes;
  }

  /** The bytes of one cell: those of one token, head and plane. */
  public int cellBytes() {
    return Math.multiplyExact(extent(KvAxis.DIM), elementBytes);
  }

  /** From the first byte to behind the last. */
  public long spanBytes() {
    long last = 0;
    for (int i = 0; i < extents.size(); i++) {
      last = Math.addExact(last, Math.multiplyExact(extents.get(i) - 1, strides.get(i)));
    }
    return Math.multiplyExact(last + 1, elementBytes);
  }

  /** Whether the same tensor so many bytes further on would share a byte with this one. */
  boolean overlapsItselfAt(long distanceBytes) {
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
   * Each axis must step over all that the faster ones span.
   *
   * @param further the stride of one more axis, of extent 2; 0 for none
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
