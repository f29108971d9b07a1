package io.kvtier.layout;

import java.util.ArrayList;
import java.util.List;

/**
 * The order of a block's cells in host memory, slowest axis first. A text gives the order by the
 * letters of {@link KvAxis}: L, C, N and H in any order, then D. A text without H means that H
 * stands before D.
 */
public record BlockOrder(List<KvAxis> axes) {
  /** Layer by layer, keys before values: {@code [layer, k|v, token, head, element]}. */
  public static final BlockOrder LCND = parse("LCND");

  /** Token by token: {@code [token, k|v, layer, head, element]}. */
  public static final BlockOrder NCLD = parse("NCLD");

  /** Layer by layer, head by head: {@code [layer, k|v, head, token, element]}. */
  public static final BlockOrder LCHND = parse("LCHND");

  /** The axes of an order: all of {@link KvAxis} except BLOCK and DIM. */
  static final int AXES = 4;

  public BlockOrder {
    axes = List.copyOf(axes);
    if (axes.size() != AXES
        || !axes.containsAll(List.of(KvAxis.LAYER, KvAxis.PLANE, KvAxis.TOKEN, KvAxis.HEAD))) {
      throw new IllegalArgumentException(
          "order " + axes + " of a block: expected LAYER, PLANE, TOKEN and HEAD, each once");
    }
  }

  /**
   * Parses an order such as "LCND", "NCLD" or "LCHND".
   *
   * @throws IllegalArgumentException when the text is no order; the message says why
   */
  public static BlockOrder parse(String letters) {
    if (!letters.endsWith("D")) {
      throw new IllegalArgumentException(
          "order '" + letters + "' of a block: expected D at its end, as in LCND");
    }
    List<KvAxis> axes = new ArrayList<>();
    for (int i = 0; i < letters.length() - 1; i++) {
      axes.add(KvAxis.of(letters.charAt(i), letters));
    }
    if (!axes.contains(KvAxis.HEAD)) {
      axes.add(KvAxis.HEAD);
    }
    return new BlockOrder(axes);
  }

  @Override
  public String toString() {
    StringBuilder letters = new StringBuilder();
    axes.forEach(axis -> letters.append(axis.letter()));
    return letters.append('D').toString();
  }
}
