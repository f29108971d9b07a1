package io.kvtier.tiers.gpu;

import java.util.ArrayList;
import java.util.List;

/**
 * The order in which a block's cells follow one another in host memory, slowest axis first. Written
 * with the letters of {@link KvAxis}: L, C, N and, before the cells' own D, H; where H is not named
 * it stands before D.
 */
public record BlockOrder(List<KvAxis> axes) {
  /** Layer by layer, keys before values: {@code [layer, k|v, token, head, element]}. */
  public static final BlockOrder LCND = parse("LCND");

  /** Token by token: {@code [token, k|v, layer, head, element]}. */
  public static final BlockOrder NCLD = parse("NCLD");

  /** As the engines that keep heads apart: {@code [layer, k|v, head, token, element]}. */
  public static final BlockOrder LCHND = parse("LCHND");

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
   * Reads an order such as "LCND", "NCLD" or "LCHND".
   *
   * @throws IllegalArgumentException naming what is wrong with it
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
