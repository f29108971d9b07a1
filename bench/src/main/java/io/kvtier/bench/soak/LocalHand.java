package io.kvtier.bench.soak;

import io.kvtier.client.BatchResult;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.protocol.Status;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The Java client, over shared memory. */
final class LocalHand implements Hand {
  private final KvtierClient client;
  private final Map<String, Namespace> namespaces = new HashMap<>();

  LocalHand(Path socket, Duration timeout) {
    client = KvtierClient.builder().socket(socket).name("soak-java").timeout(timeout).build();
  }

  private Namespace namespace(Space space) {
    return namespaces.computeIfAbsent(
        space.name(), name -> client.namespace(name, space.blockBytes(), Map.of("model", "soak")));
  }

  @Override
  public List<String> put(
      Space space, List<byte[]> keys, List<byte[]> blocks, List<byte[]> annotations) {
    try (Arena arena = Arena.ofConfined()) {
      List<MemorySegment> sources = new ArrayList<>();
      for (byte[] block : blocks) {
        sources.add(arena.allocate(block.length).copyFrom(MemorySegment.ofArray(block)));
      }
      return names(
          client
              .blocking()
              .put(namespace(space), Keys.of(keys), sources, annotations, Options.DEFAULT));
    }
  }

  @Override
  public Read get(Space space, List<byte[]> keys) {
    try (Arena arena = Arena.ofConfined()) {
      List<MemorySegment> targets = new ArrayList<>();
      for (int i = 0; i < keys.size(); i++) {
        targets.add(arena.allocate(space.blockBytes()));
      }
      List<String> names = names(client.blocking().get(namespace(space), Keys.of(keys), targets));
      return new Read(
          names, targets.stream().map(target -> target.toArray(ValueLayout.JAVA_BYTE)).toList());
    }
  }

  @Override
  public List<String> delete(Space space, List<byte[]> keys) {
    return names(client.blocking().delete(namespace(space), Keys.of(keys), Options.DEFAULT));
  }

  @Override
  public List<String> flush(Space space) {
    return List.of(client.blocking().flush(namespace(space), Options.DEFAULT).status().name());
  }

  private static List<String> names(BatchResult result) {
    return result.blocks().statuses().stream().map(Status::name).toList();
  }

  @Override
  public void close() {
    client.close();
  }
}
