package io.kvtier.bench;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * A child process that does as the lines on its standard input say: it answers each with one line,
 * {@code ok name=number ...} or {@code error reason}, and sleeps in between.
 */
final class Worker implements AutoCloseable {
  private static final int STOP_TIMEOUT_S = 10;

  private final Process process;
  private final BufferedReader answers;
  private final BufferedWriter questions;

  /** A command that could not be carried out, with the child's reason. */
  static final class Refusal extends IOException {
    private static final long serialVersionUID = 1L;

    Refusal(String reason) {
      super(reason);
    }
  }

  Worker(List<String> command) throws IOException {
    process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    answers = process.inputReader(UTF_8);
    questions = process.outputWriter(UTF_8);
  }

  /** Sends a command and returns at once; {@link #answer} must follow. */
  void send(String command) throws IOException {
    questions.write(command);
    questions.newLine();
    questions.flush();
  }

  /** The numbers of the next answer, by name. */
  Map<String, Double> answer() throws IOException {
    String line = answers.readLine();
    if (line == null) {
      throw new IOException("a worker ended in the middle of its work");
    }
    if (line.startsWith("error ")) {
      throw new Refusal(line.substring("error ".length()));
    }
    Map<String, Double> numbers = new HashMap<>();
    for (String word : line.split(" ", -1)) {
      int equals = word.indexOf('=');
      if (equals > 0) {
        numbers.put(word.substring(0, equals), Double.valueOf(word.substring(equals + 1)));
      }
    }
    return numbers;
  }

  /** Has a command carried out. */
  Map<String, Double> ask(String command) throws IOException {
    send(command);
    return answer();
  }

  /** Has a command carried out, for one number of its answer. */
  double ask(String command, String name) throws IOException {
    send(command);
    return answer(name);
  }

  /** One number of the next answer. */
  double answer(String name) throws IOException {
    Double number = answer().get(name);
    if (number == null) {
      throw new IOException("a worker answered without " + name);
    }
    return number;
  }

  long pid() {
    return process.pid();
  }

  /** Ends it with SIGKILL. */
  void kill() {
    process.destroyForcibly();
  }

  @Override
  public void close() {
    try {
      questions.close();
    } catch (IOException gone) {
      // It has ended already.
    }
    try {
      if (!process.waitFor(STOP_TIMEOUT_S, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    } catch (InterruptedException e) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
  }
}
