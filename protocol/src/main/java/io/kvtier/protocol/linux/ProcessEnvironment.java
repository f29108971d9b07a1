package io.kvtier.protocol.linux;

import java.io.IOException;
import java.lang.foreign.Arena;

/**
 * The environment of this process, as libraries in C read it. {@link System#getenv} stays as it is.
 */
public final class ProcessEnvironment {
  private ProcessEnvironment() {}

  /**
   * Sets a variable. Threads that read the environment meanwhile may read the old value.
   *
   * @param overwrites whether a value that is there is replaced
   */
  public static void set(String variable, String value, boolean overwrites) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      int result =
          (int)
              Libc.SETENV.invokeExact(
                  Libc.capture(),
                  arena.allocateFrom(variable),
                  arena.allocateFrom(value),
                  overwrites ? 1 : 0);
      if (result != 0) {
        throw Libc.failure("setenv", " of " + variable);
      }
    } catch (IOException e) {
      throw e;
    } catch (Throwable t) {
      throw Libc.defect(t);
    }
  }
}
