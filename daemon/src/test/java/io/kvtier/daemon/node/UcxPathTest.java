package io.kvtier.daemon.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.node.FabricPath;
import io.kvtier.tiers.node.ucx.UcxFabric;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;

/** Paths of UCX whose other side is silent, or dies. */
class UcxPathTest {
  private static final int BYTES = 64 << 20;
  private static final long TAG = 77;
  private static final long TIMEOUT_NS = 20_000_000_000L;

  private interface Round {
    void run() throws IOException;
  }

  private static void await(BooleanSupplier condition, Round round) throws IOException {
    long end = System.nanoTime() + TIMEOUT_NS;
    while (!condition.getAsBoolean()) {
      round.run();
      assertTrue(System.nanoTime() < end, "too late");
    }
  }

  private static boolean hasBegun(MemorySegment target) {
    return target.get(ValueLayout.JAVA_BYTE, 0) != 0;
  }

  @Test
  void blockOfASilentNode_isNotWrittenAfterTheEndOfThePath() throws IOException {
    try (UcxFabric one = UcxLibrary.fabric();
        UcxFabric other = UcxLibrary.fabric();
        FabricPath from = one.open(() -> {});
        Arena arena = Arena.ofShared()) {
      FabricPath to = other.open(() -> {});
      from.connect(to.address());
      to.connect(from.address());
      MemorySegment block = arena.allocate(BYTES, 64).fill((byte) 1);
      MemorySegment target = arena.allocate(BYTES, 64);
      boolean[] ended = new boolean[2];
      to.receive(TAG, target, () -> ended[0] = true);
      from.send(TAG, block, () -> {});
      await(
          () -> hasBegun(target),
          () -> {
            var _ = from.work();
            var _ = to.work();
          });
      // The other side says nothing from now on, so the memory can't be given back.
      to.discard(() -> ended[1] = true);
      for (int i = 0; i < 1000; i++) {
        var _ = to.work();
      }
      assertFalse(ended[0] || ended[1], "the block came whole");
      to.close();
      target.fill((byte) 0x55);
      for (int i = 0; i < 1000; i++) {
        try {
          var _ = from.work();
        } catch (IOException e) {
          break; // it has seen the end of the path
        }
      }
      for (long i = 0; i < BYTES; i += 512) {
        assertEquals(0x55, target.get(ValueLayout.JAVA_BYTE, i));
      }
    }
  }

  @Test
  void bell_rings_whenAPathThatSleepsHasSomethingToDo() throws IOException {
    AtomicInteger rings = new AtomicInteger();
    try (UcxFabric one = UcxLibrary.fabric();
        UcxFabric other = UcxLibrary.fabric();
        FabricPath from = one.open(() -> {});
        FabricPath to = other.open(rings::incrementAndGet);
        Arena arena = Arena.ofShared()) {
      from.connect(to.address());
      to.connect(from.address());
      MemorySegment target = arena.allocate(4096, 64);
      boolean[] received = new boolean[1];
      to.receive(TAG, target, () -> received[0] = true);
      from.send(TAG, arena.allocate(4096, 64).fill((byte) 1), () -> {});
      // The receiver works only when its bell rings.
      int[] heard = {-1};
      await(
          () -> received[0],
          () -> {
            var _ = from.work();
            if (rings.get() != heard[0]) {
              heard[0] = rings.get();
              while (to.work()) {
                Thread.onSpinWait();
              }
            }
          });
      assertTrue(hasBegun(target));
    }
  }

  @Test
  void nodeThatDies_breaksThePath() throws IOException {
    String library = UcxLibrary.find();
    Process process =
        java(Sender.class, library).redirectError(ProcessBuilder.Redirect.DISCARD).start();
    try (UcxFabric fabric = UcxLibrary.fabric();
        FabricPath to = fabric.open(() -> {});
        Arena arena = Arena.ofShared();
        PrintStream said =
            new PrintStream(process.getOutputStream(), true, StandardCharsets.UTF_8);
        BufferedReader heard = process.inputReader()) {
      to.connect(HexFormat.of().parseHex(heard.readLine()));
      MemorySegment target = arena.allocate(BYTES, 64);
      to.receive(TAG, target, () -> {});
      said.println(HexFormat.of().formatHex(to.address()));
      await(() -> hasBegun(target), to::work);
      var _ = process.destroyForcibly();
      assertThrows(IOException.class, () -> await(() -> false, to::work));
    } finally {
      var _ = process.destroyForcibly();
    }
  }

  private static ProcessBuilder java(Class<?> program, String library) {
    return new ProcessBuilder(
        ProcessHandle.current().info().command().orElse("java"),
        "--enable-native-access=ALL-UNNAMED",
        "-cp",
        System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
        program.getName(),
        library);
  }

  @Test
  void messagesOfUcx_goToStandardError() throws Exception {
    ProcessBuilder warned = java(Checker.class, UcxLibrary.find());
    warned.environment().put("UCX_NO_SUCH_VARIABLE", "1");
    warned.environment().remove("UCX_LOG_FILE");
    Path errors = Files.createTempFile("kvtier-ucx", ".log");
    try {
      Process process = warned.redirectError(errors.toFile()).start();
      String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertEquals(0, process.waitFor());
      assertEquals("", said);
      String warnings = Files.readString(errors);
      assertTrue(warnings.contains("UCX_NO_SUCH_VARIABLE"), warnings);
    } finally {
      Files.delete(errors);
    }
  }

  /** Loads UCX. */
  static final class Checker {
    private Checker() {}

    public static void main(String[] arguments) throws IOException {
      var _ = UcxFabric.check(arguments[0]);
    }
  }

  /** Sends a block that is longer than the receiver's test, slowly. */
  static final class Sender {
    private Sender() {}

    public static void main(String[] arguments) throws Exception {
      try (UcxFabric fabric = new UcxFabric(arguments[0], Map.of("TLS", "tcp"));
          FabricPath from = fabric.open(() -> {});
          BufferedReader heard =
              new BufferedReader(
                  new java.io.InputStreamReader(System.in, StandardCharsets.UTF_8))) {
        System.out.println(HexFormat.of().formatHex(from.address()));
        from.connect(HexFormat.of().parseHex(heard.readLine()));
        from.send(TAG, Arena.global().allocate(BYTES, 64).fill((byte) 1), () -> {});
        while (from.sending() > 0) {
          var _ = from.work();
          Thread.sleep(2);
        }
        Thread.sleep(60_000);
      }
    }
  }

  private static int length(String text) {
    return text.length();
  }

  /** Compiled code finds out by SIGSEGV that a reference is null, unless that happens often. */
  @Test
  @SuppressWarnings("NullAway") // a null is the test
  void signalsOfTheJvm_stayItsOwn() throws IOException {
    try (UcxFabric fabric = UcxLibrary.fabric();
        var _ = fabric.open(() -> {})) {
      int sum = 0;
      for (int i = 0; i < 1_000_000; i++) {
        sum += length("text");
      }
      assertEquals(4_000_000, sum);
      assertThrows(NullPointerException.class, () -> length(null));
    }
  }

  @Test
  void libraryThatIsMissing_isNamed() {
    IOException e = assertThrows(IOException.class, () -> UcxFabric.check("/no/libucp.so.0"));
    assertTrue(String.valueOf(e.getMessage()).contains("/no/libucp.so.0"), e.getMessage());
  }

  @Test
  void libraryThatIsNotUcx_isNamed() {
    IOException e = assertThrows(IOException.class, () -> UcxFabric.check("libc.so.6"));
    assertTrue(String.valueOf(e.getMessage()).contains("is no libucp"), e.getMessage());
  }

  @Test
  void transportThatUcxDoesNotHave_isAnError() throws IOException {
    String library = UcxLibrary.find();
    assertThrows(
        IOException.class,
        () -> {
          try (UcxFabric fabric = new UcxFabric(library, Map.of("TLS", "no-such-transport"));
              var _ = fabric.open(() -> {})) {
            assertFalse(fabric.version().isEmpty());
          }
        });
  }
}
