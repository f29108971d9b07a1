package io.kvtier.daemon;

import io.kvtier.daemon.index.core.OperatorAnswer;
import io.kvtier.daemon.index.core.OperatorCommands;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.object.janitor.JanitorTask;
import io.kvtier.tiers.object.janitor.ObjectJanitor;
import java.util.List;

/** What an operator can have done with the object store: the words of {@code kvtier object}. */
final class ObjectOperator implements OperatorCommands {
  private static final String USAGE =
      "expected gc, du, verify [FRACTION] [--delete], remove-namespace NAME|FINGERPRINT, status or"
          + " cancel";

  private final ObjectJanitor janitor;

  ObjectOperator(ObjectJanitor janitor) {
    this.janitor = janitor;
  }

  @Override
  public OperatorAnswer run(List<String> words) {
    List<String> rest = words.subList(1, words.size());
    return switch (words.getFirst()) {
      case "cancel" -> {
        requireCount(words, rest, 0);
        yield janitor.cancel()
            ? new OperatorAnswer(Status.OK, "cancelled")
            : new OperatorAnswer(Status.MISS, "no task is under way");
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

  private OperatorAnswer begin(JanitorTask task) {
    if (!janitor.start(task)) {
      return new OperatorAnswer(
          Status.BUSY,
          "the task "
              + janitor.report().task()
              + " is under way: wait for it (kvtier object status), or end it (kvtier object"
              + " cancel)");
    }
    return new OperatorAnswer(Status.OK, task.name() + " begun");
  }

  private static JanitorTask verify(List<String> words, List<String> rest) {
    boolean delete = !rest.isEmpty() && rest.getLast().equals("--delete");
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
