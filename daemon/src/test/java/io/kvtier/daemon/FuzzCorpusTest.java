package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import io.kvtier.daemon.config.ConfigFuzz;
import io.kvtier.daemon.grpc.GrpcFuzz;
import io.kvtier.daemon.index.RingFuzz;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;

/**
 * Replays what {@code scripts/fuzz} begins with, and what it once found: no input may be taken
 * otherwise than its target says.
 */
@Timeout(120)
class FuzzCorpusTest {
  private static final Path CORPUS = Path.of("src", "test", "resources", "fuzz");

  /** What takes an input, and throws what it finds. */
  private interface Target {
    void run(byte[] input) throws Exception;
  }

  private static Stream<DynamicTest> replay(String folder, Target target) throws IOException {
    List<Path> files;
    try (Stream<Path> listed = Files.list(CORPUS.resolve(folder))) {
      files = listed.sorted().toList();
    }
    assertTrue(files.size() > 5, "there are inputs");
    return files.stream()
        .map(file ->
            dynamicTest(
                String.valueOf(file.getFileName()), () -> target.run(Files.readAllBytes(file))));
  }

  @TestFactory
  Stream<DynamicTest> config() throws IOException {
    return replay("config", ConfigFuzz::fuzzerTestOneInput);
  }

  @TestFactory
  Stream<DynamicTest> grpc() throws IOException {
    return replay("grpc", GrpcFuzz::fuzzerTestOneInput);
  }

  @TestFactory
  Stream<DynamicTest> ring() throws IOException {
    return replay("ring", RingFuzz::fuzzerTestOneInput);
  }
}
