package io.kvtier.daemon.index.core;

import io.kvtier.protocol.Status;

/**
 * How an operator's command ended.
 *
 * @param status OK; INVALID_ARGUMENT when the command is wrong; BUSY, MISS and others when the
 *     command is right, but can't be done
 * @param text what was done, or why not
 */
public record OperatorAnswer(Status status, String text) {
  public static OperatorAnswer done(String text) {
    return new OperatorAnswer(Status.OK, text);
  }

  public static OperatorAnswer wrong(String text) {
    return new OperatorAnswer(Status.INVALID_ARGUMENT, text);
  }
}
