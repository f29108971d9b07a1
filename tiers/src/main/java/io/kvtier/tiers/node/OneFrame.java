package io.kvtier.tiers.node;

import io.kvtier.tiers.transfer.Transfer;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiPredicate;
import java.util.function.Consumer;

/** Splits lists of blocks into parts that one frame can name. */
final class OneFrame {
  private OneFrame() {}

  /** Whether two blocks have one namespace, group and length of keys. */
  static boolean names(Transfer one, Transfer other) {
    return one.namespaceHigh == other.namespaceHigh
        && one.namespaceLow == other.namespaceLow
        && one.group == other.group
        && one.keyBytes == other.keyBytes;
  }

  /**
   * Hands over a short list in few parts, each in the order of the list. Members that go together
   * need not follow each other.
   *
   * @param most the most members of a part
   * @param goTogether whether two members can be in one part
   * @param take takes each part
   */
  static <T> void gather(
      List<T> all, int most, BiPredicate<T, T> goTogether, Consumer<List<T>> take) {
    List<List<T>> gathered = new ArrayList<>();
    for (T one : all) {
      List<T> fitting = null;
      for (List<T> some : gathered) {
        fitting = fitting == null && goTogether.test(some.getFirst(), one) ? some : fitting;
      }
      if (fitting == null) {
        fitting = new ArrayList<>();
        gathered.add(fitting);
      }
      fitting.add(one);
    }
    gathered.forEach(some -> each(some, most, (_, _) -> true, take));
  }

  /**
   * Hands over a list in parts, in its order.
   *
   * @param most the most members of a part
   * @param goTogether whether the first member of a part and another one can be in one part
   * @param take takes each part, which changes with the list
   */
  static <T> void each(
      List<T> all, int most, BiPredicate<T, T> goTogether, Consumer<List<T>> take) {
    int begin = 0;
    for (int i = 1; i <= all.size(); i++) {
      if (i == all.size() || i - begin == most || !goTogether.test(all.get(begin), all.get(i))) {
        take.accept(all.subList(begin, i));
        begin = i;
      }
    }
  }
}
