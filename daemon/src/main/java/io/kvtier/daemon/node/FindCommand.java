package io.kvtier.daemon.node;

import io.kvtier.daemon.index.core.OperatorAnswer;
import io.kvtier.protocol.Status;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The command {@code nodes find NAME GROUP KEY...}, in which the name of the namespace and the keys
 * are in hexadecimal. Other nodes take a while to answer: the command is PENDING until then, and
 * the operator asks again with equal words. Confined to the index's thread, except for answers.
 */
final class FindCommand {
  private static final int WAITING_MAX = 16;
  private static final int NODES_MAX = 64;
  private static final long FORGOTTEN_NS = 10_000_000_000L;

  private static final class Question {
    private final long beganNs;
    private volatile NodeFinder.@Nullable Answer answer;

    Question(long beganNs) {
      this.beganNs = beganNs;
    }
  }

  private final NodeFinder finder;
  private final LongSupplier clock;
  private final Map<List<String>, Question> questions = new LinkedHashMap<>();

  FindCommand(NodeFinder finder, LongSupplier clock) {
    this.finder = finder;
    this.clock = clock;
  }

  /**
   * Begins, or says what was found.
   *
   * @param words after {@code nodes find}
   * @throws IllegalArgumentException saying what is wrong with the words
   */
  OperatorAnswer run(List<String> words) {
    long nowNs = clock.getAsLong();
    questions.values().removeIf(one -> nowNs - one.beganNs >= FORGOTTEN_NS);
    Question question = questions.get(words);
    if (question == null) {
      NodeFinder.Sought sought = sought(words);
      if (questions.size() >= WAITING_MAX) {
        return busy();
      }
      Question made = new Question(nowNs);
      questions.put(List.copyOf(words), made);
      finder.find(sought, answer -> made.answer = answer);
      question = made;
    }
    NodeFinder.Answer answer = question.answer;
    if (answer != null) {
      questions.remove(words);
    }
    return switch (answer) {
      case null -> new OperatorAnswer(Status.PENDING, "other nodes are being asked");
      case NodeFinder.Answer.Found found ->
          new OperatorAnswer(Status.OK, found.json(NODES_MAX).encode());
      case NodeFinder.Answer.NoNamespace _ ->
          new OperatorAnswer(
              Status.MISS,
              "this node knows no namespace of that name: kvtier namespaces shows those that it"
                  + " knows");
      case NodeFinder.Answer.Busy _ -> busy();
    };
  }

  private static OperatorAnswer busy() {
    return new OperatorAnswer(Status.BUSY, "too many such questions are under way: ask again");
  }

  private static NodeFinder.Sought sought(List<String> words) {
    if (words.size() < 3) {
      throw new IllegalArgumentException("expected 'nodes find NAME GROUP KEY...'");
    }
    byte[] name = HexFormat.of().parseHex(words.getFirst());
    return NodeFinder.Sought.ofOperator(
        new String(name, StandardCharsets.UTF_8),
        Integer.parseInt(words.get(1)),
        words.subList(2, words.size()));
  }
}
