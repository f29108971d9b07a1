package io.kvtier.daemon.simulation;

import io.kvtier.protocol.ProtocolViolation;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Supplier;

/**
 * The seeds that a simulation on the command line runs, and the report of the seeds that fail.
 *
 * <p>Each simulation has the options {@code [--seed N] [--seeds COUNT] [--from N] [--plant BUG]}.
 */
public final class SeedRuns {
  private static final long COUNT = 1000;

  /** The most failures that are printed. */
  private static final int SHOWN = 3;

  private static final List<String> OPTIONS = List.of("--seed", "--seeds", "--from", "--plant");

  /** Simulates a seed. */
  @FunctionalInterface
  public interface Simulated {
    /** Throws if the seed breaks a promise. */
    void run(long seed) throws IOException, ProtocolViolation;
  }

  private final String command;
  private final Map<String, String> given = new LinkedHashMap<>();
  private final long from;
  private final long count;

  /**
   * Reads the command line, and ends the process if it is wrong.
   *
   * @param command runs the simulation, for the reader of a failure
   * @param from the first seed, unless the command line names one
   * @param others options of this simulation alone
   */
  public SeedRuns(String command, long from, List<String> others, String[] arguments) {
    this.command = command;
    for (int i = 0; i < arguments.length; i += 2) {
      if (!OPTIONS.contains(arguments[i]) && !others.contains(arguments[i])) {
        refuse(
            "there is no option '%s': expected %s %s"
                .formatted(arguments[i], String.join(" ", OPTIONS), String.join(" ", others)));
      }
      if (i + 1 == arguments.length) {
        refuse("option '" + arguments[i] + "' has no value");
      }
      given.put(arguments[i], arguments[i + 1]);
    }
    boolean isOne = given.containsKey("--seed");
    this.from = number(isOne ? "--seed" : "--from", from);
    count = isOne ? 1 : number("--seeds", COUNT);
  }

  private void refuse(String why) {
    System.err.println(command + ": " + why);
    System.exit(2);
  }

  private long number(String option, long otherwise) {
    String text = given.get(option);
    try {
      return text == null ? otherwise : Long.parseLong(text);
    } catch (NumberFormatException e) {
      refuse("option " + option + " is '" + text + "', expected a whole number");
      return otherwise;
    }
  }

  /** The value of an option. */
  public String option(String name, String otherwise) {
    return given.getOrDefault(name, otherwise);
  }

  /** The bug to insert; {@code NONE} if the command line names none. */
  public <E extends Enum<E>> E planted(Class<E> bugs) {
    String name = option("--plant", "NONE").toUpperCase(Locale.ROOT).replace('-', '_');
    for (E bug : bugs.getEnumConstants()) {
      if (bug.name().equals(name)) {
        return bug;
      }
    }
    refuse("there is no bug '" + given.get("--plant") + "' to plant");
    throw new IllegalArgumentException(name);
  }

  /**
   * Runs all seeds, prints those that fail, and ends the process.
   *
   * @param figures of the seeds that did not fail, in words
   */
  public void run(Simulated simulated, Supplier<String> figures) {
    long start = System.nanoTime();
    long failed = 0;
    for (long seed = from; seed < from + count; seed++) {
      try {
        simulated.run(seed);
      } catch (RuntimeException | IOException | ProtocolViolation | AssertionError e) {
        failed++;
        if (failed <= SHOWN) {
          show(seed, e);
        }
      }
    }
    System.out.printf(
        Locale.ROOT,
        "%,d seeds, %,d failed, %.1f s; %s%n",
        count,
        failed,
        (System.nanoTime() - start) / 1e9,
        figures.get());
    System.exit(failed == 0 ? 0 : 1);
  }

  private void show(long seed, Throwable failure) {
    System.out.println("FAILED seed " + seed + ": " + failure);
    StackTraceElement[] trace = failure.getStackTrace();
    if (count == 1) {
      failure.printStackTrace(System.out);
    } else if (trace.length > 0) {
      System.out.println("  at " + trace[0]);
    }
    StringBuilder again = new StringBuilder(command).append(" --seed ").append(seed);
    given.forEach((option, value) -> {
      if (!option.startsWith("--seed") && !option.equals("--from")) {
        again.append(' ').append(option).append(' ').append(value);
      }
    });
    System.out.println("  again: " + again);
  }
}
