package io.kvtier.tiers.node.ucx;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.protocol.linux.ProcessEnvironment;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import org.junit.jupiter.api.Test;

/** The environment as UCX reads it. No test here loads UCX. */
class UcxEnvironmentTest {
  @SuppressWarnings("restricted") // getenv(3), as its manual has it
  private static String variable(String name) throws Throwable {
    Linker linker = Linker.nativeLinker();
    MethodHandle get =
        linker.downcallHandle(
            linker.defaultLookup().findOrThrow("getenv"), FunctionDescriptor.of(ADDRESS, ADDRESS));
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment value = (MemorySegment) get.invokeExact(arena.allocateFrom(name));
      return value.equals(MemorySegment.NULL) ? "absent" : value.reinterpret(4096).getString(0);
    }
  }

  @Test
  void signalsStayWithTheJvm_whateverTheOperatorHasSet() throws Throwable {
    ProcessEnvironment.set("UCX_ERROR_SIGNALS", "SEGV", true);
    UcxEnvironment.prepare();
    assertEquals("", variable("UCX_ERROR_SIGNALS"));
  }

  @Test
  void messages_goToStandardError() throws Throwable {
    UcxEnvironment.prepare();
    assertEquals("stderr", variable("UCX_LOG_FILE"));
  }

  @Test
  void speedsOfTcp_areThoseOfTheOperator_ifThereAreAny() throws Throwable {
    ProcessEnvironment.set("UCX_TCP_SNDBUF", "2m", true);
    UcxEnvironment.prepare();
    assertEquals("2m", variable("UCX_TCP_SNDBUF"));
    assertEquals("4m", variable("UCX_TCP_RCVBUF"));
  }
}
