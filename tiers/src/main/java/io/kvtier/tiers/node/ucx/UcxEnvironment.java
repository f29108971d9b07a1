package io.kvtier.tiers.node.ucx;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.invoke.MethodHandle;
import java.util.Map;

/** The variables of the environment that UCX needs in a JVM, before its library is loaded. */
@SuppressWarnings("restricted") // setenv(3), as its manual has it
final class UcxEnvironment {
  /**
   * The signals that UCX handles by an end of the process: none. The JVM itself uses SIGSEGV, for
   * checks of null. UCX takes the signals when it is loaded, so no later call can prevent that.
   */
  private static final Map<String, String> NEEDED = Map.of("UCX_ERROR_SIGNALS", "");

  /** Over TCP, UCX's own values reach a third of the speed. An operator's values count first. */
  private static final Map<String, String> USUAL =
      Map.of(
          "UCX_TCP_TX_SEG_SIZE", "1m",
          "UCX_TCP_RX_SEG_SIZE", "1m",
          "UCX_TCP_SNDBUF", "4m",
          "UCX_TCP_RCVBUF", "4m");

  private UcxEnvironment() {}

  /** Sets the variables. Threads that read the environment meanwhile may read the old values. */
  static void prepare() throws IOException {
    Linker linker = Linker.nativeLinker();
    MethodHandle set =
        linker.downcallHandle(
            linker.defaultLookup().findOrThrow("setenv"),
            FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_INT));
    for (Map.Entry<String, String> one : NEEDED.entrySet()) {
      set(set, one, 1);
    }
    for (Map.Entry<String, String> one : USUAL.entrySet()) {
      set(set, one, 0);
    }
  }

  private static void set(MethodHandle call, Map.Entry<String, String> variable, int overwrite)
      throws IOException {
    int result;
    try (Arena arena = Arena.ofConfined()) {
      result =
          (int)
              call.invokeExact(
                  arena.allocateFrom(variable.getKey()),
                  arena.allocateFrom(variable.getValue()),
                  overwrite);
    } catch (Throwable t) {
      throw new AssertionError("a call of setenv", t);
    }
    if (result != 0) {
      throw new IOException("the variable " + variable.getKey() + " can't be set");
    }
  }
}
