package io.kvtier.systemtests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.client.BatchResult;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import io.kvtier.protocol.Status;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.spi.ToolProvider;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The example plug-in, built as its page says, in a real daemon. */
@Timeout(value = 240, unit = TimeUnit.SECONDS)
final class PluginsEndToEndTest {
  private static final int BLOCK_BYTES = 4096;
  private static final Path EXAMPLE = Path.of("..", "examples", "plug-in").toAbsolutePath();

  @TempDir private Path folder;
  private Path plugins = Path.of("");
  private Path blocks = Path.of("");

  @BeforeEach
  void build() throws IOException {
    plugins = Files.createDirectory(folder.resolve("plug-ins"));
    blocks = Files.createDirectory(folder.resolve("blocks"));
    Path source = EXAMPLE.resolve("src");
    Path classes = folder.resolve("classes");
    run(
        "javac",
        "-cp",
        TestDaemon.classPath(),
        "-d",
        classes.toString(),
        source.resolve("com/example/CountingPolicy.java").toString(),
        source.resolve("com/example/FolderSource.java").toString());
    run(
        "jar",
        "--create",
        "--file",
        plugins.resolve("example.jar").toString(),
        "--manifest",
        EXAMPLE.resolve("manifest").toString(),
        "-C",
        classes.toString(),
        ".",
        "-C",
        source.toString(),
        "META-INF");
  }

  private static void run(String tool, String... words) {
    assertEquals(
        0, ToolProvider.findFirst(tool).orElseThrow().run(System.out, System.err, words), tool);
  }

  private TestDaemon start() {
    return TestDaemon.start(
        folder,
        "host.bytes=32MiB",
        "host.slab_bytes=8MiB",
        "ssd.bytes=0",
        "plugins.directory=" + plugins,
        "plugins.sources=name=folder path=" + blocks,
        "host.policy=counting:every=2/lru");
  }

  private void write(String namespace, byte[] key, MemorySegment block, int damage)
      throws IOException {
    byte[] bytes = block.toArray(ValueLayout.JAVA_BYTE);
    CRC32C checksum = new CRC32C();
    checksum.update(bytes);
    bytes[100] ^= (byte) damage;
    Path file =
        Files.createDirectories(blocks.resolve(namespace))
            .resolve(HexFormat.of().formatHex(key) + ".0");
    ByteBuffer head = ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    try (OutputStream out = Files.newOutputStream(file)) {
      out.write(head.putInt((int) checksum.getValue()).array());
      out.write(bytes);
    }
  }

  @Test
  void examplePlugin_itsPolicyHearsOfBlocks_andItsSourceBringsThem_butNoDamagedOne()
      throws IOException {
    try (TestDaemon daemon = start();
        KvtierClient client = KvtierClient.builder().socket(daemon.socket()).build();
        Arena arena = Arena.ofConfined()) {
      String loaded = client.blocking().admin("plugins").text();
      assertTrue(loaded.contains("\"kind\":\"eviction policy\",\"name\":\"counting\""), loaded);
      assertTrue(loaded.contains("\"kind\":\"source\",\"name\":\"folder\""), loaded);

      Namespace namespace = client.namespace("plugged", BLOCK_BYTES, Map.of("model", "m"));
      Keys keys = Patterns.keys(0, 4);
      List<MemorySegment> written = Patterns.filled(arena, 0, 4, BLOCK_BYTES);
      assertEquals(0, client.blocking().lookup(namespace, keys.slice(0, 1)).run());
      Matcher fingerprint =
          Pattern.compile("\"fingerprint\":\"([0-9a-f]{32})\"")
              .matcher(client.blocking().stats().text());
      assertTrue(fingerprint.find(), () -> client.blocking().stats().text());
      write(fingerprint.group(1), keys.get(2), written.get(2), 0);
      write(fingerprint.group(1), keys.get(3), written.get(3), 1);

      assertTrue(
          client
              .blocking()
              .put(namespace, keys.slice(0, 2), written.subList(0, 2))
              .blocks()
              .all(Status.OK));
      String log = Files.readString(folder.resolve("daemon.log"));
      assertTrue(log.contains("counting: 2 put"), log);
      assertTrue(log.contains("plug-ins of '" + plugins + "'"), log);

      List<MemorySegment> read = Patterns.empty(arena, 1, BLOCK_BYTES);
      BatchResult got = client.blocking().get(namespace, keys.slice(2, 3), read);
      assertTrue(got.blocks().all(Status.OK), got::toString);
      assertTrue(Patterns.matches(read.getFirst(), 2));
      BatchResult damaged = client.blocking().get(namespace, keys.slice(3, 4), read);
      assertTrue(damaged.blocks().all(Status.MISS), damaged::toString);
      assertEquals(1, client.counters().getOrDefault("corrupt", -1L));
    }
  }

  @Test
  void sourceThatCanNotBeOpened_keepsTheDaemonFromStarting_andIsNamed() throws IOException {
    Files.delete(blocks);
    String message =
        String.valueOf(assertThrows(IllegalStateException.class, this::start).getMessage());
    assertTrue(
        message.contains(
            "plugins.sources: 'folder' can't be opened: path '" + blocks + "' is no folder"),
        message);
  }
}
