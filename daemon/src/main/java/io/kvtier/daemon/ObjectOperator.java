package io.kvtier.daemon;

import io.kvtier.daemon.index.ObjectParts;
import io.kvtier.tiers.object.janitor.JanitorTask;
import io.kvtier.tiers.object.janitor.ObjectJanitor;
import java.util.List;

/** What an operator can have done with the object store: the words of {@code kvtier object}. */
final class ObjectOperator implements ObjectParts.Operator {
  private static final String USAGE =
      "expected gc, du, verify [FRACTION] [delete], remove-namespace FINGERPRINT or cancel";

  private final ObjectJanitor janitor;

  ObjectOperator(ObjectJanitor janitor) {
    this.janitor = janitor;
  }

  @Override
  public String run(List<String> words) {
    List<String> rest = words.subList(1, words.size());
    return switch (words.getFirst()) {
      case "cancel" -> {
        requireCount(words, rest, 0);
        janitor.cancel();
        yield "cancelled";
      }
      case "gc" -> {
        requireCount(words, rest, 0);
        yield begin(new JanitorTask.Gc());
      }
      case "du" -> {
        requireCount(words, rest, 0);
        yield begin(new JanitorTask.Du());
      }
      case "verify" -> begin(verify(words, rest));
      case "remove-namespace" -> {
        requireCount(words, rest, 1);
        yield begin(new JanitorTask.RemoveNamespace(rest.getFirst()));
      }
      default -> throw mistaken(words);
    };
  }

  private String begin(JanitorTask task) {
    if (!janitor.start(task)) {
      throw new IllegalArgumentException(
          "the task "
              + janitor.report().task()
              + " is under way: wait for it (kvtier object status), or end it (kvtier object"
              + " cancel)");
    }
    return task.name() + " begun";
  }

  private static JanitorTask verify(List<String> words, List<String> rest) {
    boolean delete = !rest.isEmpty() && rest.getLast().equals("delete");
    List<String> fraction = rest.subList(0, rest.size() - (delete ? 1 : 0));
    if (fraction.isEmpty()) {
      return new JanitorTask.Verify(1, delete);
    }
    requireCount(words, fraction, 1);
    try {
      return new JanitorTask.Verify(Double.parseDouble(fraction.getFirst()), delete);
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException(
          "'" + fraction.getFirst() + "' is no fraction of the objects, such as 0.1", e);
    }
  }

  private static void requireCount(List<String> words, List<String> rest, int count) {
    if (rest.size() != count) {
      throw mistaken(words);
    }
  }

  private static IllegalArgumentException mistaken(List<String> words) {
    return new IllegalArgumentException("'object " + String.join(" ", words) + "': " + USAGE);
  }
}
