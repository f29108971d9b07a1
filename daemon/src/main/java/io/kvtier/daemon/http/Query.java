package io.kvtier.daemon.http;

import io.vertx.core.MultiMap;
import java.util.List;
import java.util.Map;

/** The parameters of a request, of which only known ones are taken. */
final class Query {
  private final MultiMap parameters;

  /**
   * Takes parameters.
   *
   * @throws ProblemException where one is not known, or stands there twice
   */
  Query(MultiMap parameters, List<String> known) {
    this.parameters = parameters;
    for (Map.Entry<String, String> each : parameters) {
      String name = each.getKey();
      if (!known.contains(name)) {
        throw new ProblemException(
            400,
            "unknown parameter '"
                + name
                + "': "
                + (known.isEmpty() ? "there are none here" : "expected " + known));
      }
      if (parameters.getAll(name).size() > 1) {
        throw new ProblemException(400, "parameter '" + name + "' is there twice: give it once");
      }
    }
  }

  /** A text; a request without it is mistaken. */
  String text(String name, String expected) {
    String text = parameters.get(name);
    if (text == null || text.isEmpty()) {
      throw new ProblemException(400, "parameter '" + name + "' is missing: expected " + expected);
    }
    return text;
  }

  /** A whole number. */
  int number(String name, int min, int max, int usual) {
    String text = parameters.get(name);
    if (text == null) {
      return usual;
    }
    try {
      int number = Integer.parseInt(text);
      if (number >= min && number <= max) {
        return number;
      }
    } catch (NumberFormatException e) {
      // Told below.
    }
    throw new ProblemException(
        400,
        "parameter '"
            + name
            + "' is '"
            + text
            + "', expected a whole number from "
            + min
            + " to "
            + max);
  }
}
