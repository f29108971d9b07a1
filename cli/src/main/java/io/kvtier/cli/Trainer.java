package io.kvtier.cli;

import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Has a daemon do a little of everything, while the JVM takes down which classes and methods it
 * needs for that: its next starts are quicker. Leaves blocks behind, for the next start to find.
 */
final class Trainer {
  private static final int KEY_BYTES = 32;
  private static final int BLOCK_BYTES = 4096;
  private static final int BATCH = 256;
  private static final int BATCHES = 64;

  private Trainer() {}

  /** Takes the path of the daemon's socket. */
  public static void main(String[] arguments) {
    try (KvtierClient client =
            KvtierClient.builder()
                .socket(Path.of(arguments[0]))
                .name("trainer")
                .timeout(Duration.ofSeconds(30))
                .build();
        Arena arena = Arena.ofConfined()) {
      var _ = client.connect();
      Namespace namespace = client.namespace("training", BLOCK_BYTES, Map.of());
      MemorySegment keyBytes = arena.allocate((long) BATCH * KEY_BYTES, 8);
      Keys keys = Keys.wrap(keyBytes, KEY_BYTES);
      List<MemorySegment> blocks = new ArrayList<>();
      for (int i = 0; i < BATCH; i++) {
        blocks.add(arena.allocate(BLOCK_BYTES, 64));
      }
      for (int batch = 0; batch < BATCHES; batch++) {
        for (int i = 0; i < BATCH; i++) {
          keyBytes.set(ValueLayout.JAVA_LONG, (long) i * KEY_BYTES, (long) batch * BATCH + i);
        }
        var _ = client.blocking().lookup(namespace, keys);
        var _ = client.blocking().put(namespace, keys, blocks);
        var _ = client.blocking().get(namespace, keys, blocks);
      }
      var _ = client.blocking().delete(namespace, keys, Options.DEFAULT);
      var _ =
          client.blocking().flush(namespace, Options.DEFAULT.withTimeout(Duration.ofSeconds(30)));
    }
  }
}
