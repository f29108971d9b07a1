package io.kvtier.bench;

import java.io.IOException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** A benchmark needs a program that is not installed. */
final class MissingProgram extends IOException {
  private static final Pattern NOT_FOUND =
      Pattern.compile("Cannot run program \"([^\"]+)\".*error[=:] ?2\\b.*", Pattern.DOTALL);

  private static final long serialVersionUID = 1L;

  /**
   * A program that is missing.
   *
   * @param cure how to install it
   */
  MissingProgram(String name, String cure) {
    super(
        "the program '"
            + name
            + "' is missing: install it ("
            + cure
            + "), or add its folder to PATH");
  }

  /** The missing program that a failure was caused by; null where the cause is another. */
  static @Nullable MissingProgram in(Throwable failure) {
    for (Throwable e = failure; e != null; e = e.getCause()) {
      if (e instanceof MissingProgram missing) {
        return missing;
      }
      Matcher notFound = NOT_FOUND.matcher(String.valueOf(e.getMessage()));
      if (e instanceof IOException && notFound.matches()) {
        return new MissingProgram(notFound.group(1), "with the package manager of the system");
      }
    }
    return null;
  }
}
