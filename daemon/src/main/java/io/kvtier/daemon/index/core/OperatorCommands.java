package io.kvtier.daemon.index.core;

import java.util.List;

/** A part of the daemon that carries out operators' commands. */
@FunctionalInterface
public interface OperatorCommands {
  /**
   * Carries out a command, or begins it; answers at once.
   *
   * @throws IllegalArgumentException saying what is wrong with the words
   */
  OperatorAnswer run(List<String> words);
}
