package io.kvtier.daemon.index;

import io.kvtier.protocol.Status;

/**
 * How an operator's command ended.
 *
 * @param status OK; INVALID_ARGUMENT where the words are wrong; BUSY, MISS and others where they
 *     are right, and all the same it can't be done
 * @param text what was done, or why not
 */
public record OperatorAnswer(Status status, String text) {
  static OperatorAnswer done(String text) {
    return new OperatorAnswer(Status.OK, text);
  }

  static OperatorAnswer wrong(String text) {
    return new OperatorAnswer(Status.INVALID_ARGUMENT, text);
  }
}
