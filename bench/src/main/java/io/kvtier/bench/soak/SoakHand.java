package io.kvtier.bench.soak;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.kvtier.client.BlockTokens;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The program of a client. Each line of the standard input is {@code VERB SPACE NUMBER,NUMBER...};
 * each is answered by one line: the blocks' statuses, and behind a bar {@code NUMBER:BYTES} for
 * blocks that were read with wrong bytes.
 *
 * <p>Arguments: {@code local SOCKET} or {@code grpc HOST:PORT}, the environment variable of the
 * token or {@code -}, the timeout in seconds, the seed, and {@code SPACE=BYTES} for each namespace.
 */
public final class SoakHand {
  private static final int SPACES_FROM = 5;

  private SoakHand() {}

  public static void main(String[] arguments) throws Exception {
    Duration timeout = Duration.ofSeconds(Long.parseLong(arguments[3]));
    Map<String, Space> spaces = new HashMap<>();
    for (String space : List.of(arguments).subList(SPACES_FROM, arguments.length)) {
      int equals = space.indexOf('=');
      String name = space.substring(0, equals);
      int bytes = Integer.parseInt(space.substring(equals + 1));
      spaces.put(name, new Space(arguments[4], name, bytes));
    }
    String token = System.getenv().getOrDefault(arguments[2], "");
    try (Hand hand =
        arguments[0].equals("grpc")
            ? new GrpcHand(arguments[1], token, timeout)
            : new LocalHand(Path.of(arguments[1]), timeout)) {
      serve(hand, spaces);
    }
  }

  private static void serve(Hand hand, Map<String, Space> spaces) throws Exception {
    BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, UTF_8));
    PrintStream answers = new PrintStream(System.out, true, UTF_8);
    for (String line = readLine(questions); line != null; line = readLine(questions)) {
      String[] words = line.split(" ", -1);
      Space space = spaces.get(words[1]);
      if (space == null) {
        throw new IllegalArgumentException("no namespace '" + words[1] + "'");
      }
      answers.println(answer(hand, space, words[0], words.length > 2 ? words[2] : ""));
    }
  }

  private static @Nullable String readLine(BufferedReader questions) {
    try {
      return questions.readLine();
    } catch (IOException gone) {
      return null;
    }
  }

  private static String answer(Hand hand, Space space, String verb, String text) throws Exception {
    List<Integer> numbers = new ArrayList<>();
    List<byte[]> keys = new ArrayList<>();
    if (!text.isEmpty()) {
      for (String number : text.split(",", -1)) {
        numbers.add(Integer.valueOf(number));
        keys.add(space.key(Integer.parseInt(number)));
      }
    }
    return switch (verb) {
      case "put" ->
          String.join(
              " ",
              hand.put(
                  space,
                  keys,
                  keys.stream().map(space::block).toList(),
                  numbers.stream().map(number -> BlockTokens.of(number).annotation()).toList()));
      case "delete" -> String.join(" ", hand.delete(space, keys));
      case "flush" -> String.join(" ", hand.flush(space));
      case "get" -> {
        Hand.Read read = hand.get(space, keys);
        StringBuilder answer = new StringBuilder(String.join(" ", read.statuses()));
        String between = " |";
        for (int i = 0; i < keys.size(); i++) {
          if (read.statuses().get(i).equals("OK")) {
            int wrong = space.wrongBytes(keys.get(i), read.blocks().get(i));
            if (wrong > 0) {
              answer.append(between).append(' ').append(numbers.get(i)).append(':').append(wrong);
              between = "";
            }
          }
        }
        yield answer.toString();
      }
      default -> throw new IllegalArgumentException("no verb '" + verb + "'");
    };
  }
}
