package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.kvtier.client.DeviceRegion;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import io.kvtier.client.RegionSpec;
import io.kvtier.daemon.config.ConfigLoader;
import io.kvtier.daemon.gpu.FileGpu;
import io.kvtier.daemon.http.ApiDescription;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.NumaMemory;
import io.kvtier.protocol.linux.ThreadCpus;
import io.kvtier.tiers.gpu.GpuProbe;
import io.kvtier.tiers.numa.NumaCalls;
import io.kvtier.tiers.numa.NumaFiles;
import io.kvtier.tiers.numa.NumaGpu;
import io.kvtier.tiers.numa.NumaHomes;
import io.kvtier.tiers.numa.NumaNode;
import io.kvtier.tiers.numa.NumaPlan;
import io.kvtier.tiers.numa.NumaTopology;
import io.vertx.core.json.Json;
import io.vertx.core.json.JsonObject;
import io.vertx.json.schema.OutputUnit;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * A whole daemon that believes in a second NUMA node, without processors. All calls are those of
 * this machine: memory comes from NUMA node 0, and threads run on the processors of that node.
 */
@Timeout(120)
final class NumaEndToEndTest {
  private static final long HOST_BYTES = 16 << 20;
  private static final int CELL = 4096;

  @TempDir private Path folder;

  private static NumaHomes homes(int slabs, long slabBytes, int cpu) {
    BitSet cpus = new BitSet();
    cpus.set(cpu);
    NumaTopology topology =
        new NumaTopology(
            List.of(
                new NumaNode(0, cpus, true, 1 << 30, true),
                new NumaNode(1, new BitSet(), false, 1 << 30, true)),
            List.of(new NumaGpu(FileGpu.PCI_ID, 0)),
            Map.of());
    return new NumaHomes(NumaPlan.of(topology, slabs, slabBytes), new NumaFiles(), NumaCalls.LINUX);
  }

  private static int lastCpu() {
    try {
      BitSet ignored = NumaMemory.nodesOfThread();
      return ThreadCpus.get().length() - 1;
    } catch (IOException e) {
      assumeTrue(false, "the kernel or a seccomp filter refuses the calls: " + e.getMessage());
      return 0;
    }
  }

  private RegionSpec spec(Path file) {
    return new RegionSpec(
        FileGpu.UUID,
        1,
        2,
        1,
        "LCND",
        List.of(new RegionSpec.Part("kv", "BD", List.of(2L, (long) CELL), List.of(4096L, 1L), 1)),
        List.of(new RegionSpec.Tensor(new RegionSpec.Allocation(FileGpu.handle(file)), 0)),
        List.of());
  }

  /** The processors of this process's threads, by the beginnings of their names. */
  private static Map<String, String> cpusOfThreads() throws IOException {
    Map<String, String> cpus = new TreeMap<>();
    try (Stream<Path> threads = Files.list(Path.of("/proc/self/task"))) {
      for (Path thread : threads.toList()) {
        String name = Files.readString(thread.resolve("comm")).strip();
        Files.readAllLines(thread.resolve("status")).stream()
            .filter(line -> line.startsWith("Cpus_allowed_list:"))
            .forEach(line -> cpus.put(name, line.replaceAll(".*:\\s*", "")));
      }
    }
    return cpus;
  }

  private static boolean isNear(List<String> threads, Map<String, String> cpus, int cpu) {
    return threads.stream().allMatch(thread -> String.valueOf(cpu).equals(cpus.get(thread)));
  }

  @Test
  void severalNumaNodes_memoryAndThreadsAreWhereTheReportSays() throws Exception {
    int cpu = lastCpu();
    // Handles are short.
    Path tensors = Files.createTempDirectory(Path.of("/dev/shm"), "kvn");
    Path tensor = Files.write(tensors.resolve("kv"), new byte[2 * CELL]);
    try (Daemon daemon =
            new Daemon(
                ConfigLoader.load(
                    null, SmallDaemon.settings(folder, "grpc.enabled=false", "http.port=0")),
                () -> new GpuProbe.Found(new FileGpu(tensors, 0)),
                (slabs, slabBytes) -> homes(slabs, slabBytes, cpu),
                null);
        HttpClient http = HttpClient.newHttpClient();
        KvtierClient client =
            KvtierClient.builder().socket(folder.resolve("kvtier.sock")).name("numa").build()) {
      Namespace namespace = client.namespace("model", CELL, Map.of());
      DeviceRegion region = namespace.registerRegion(spec(tensor)).region();
      assertNotNull(region);
      String answer = "";
      JsonObject node = new JsonObject();
      long end = System.nanoTime() + 60_000_000_000L;
      while (System.nanoTime() < end && node.getLong("taken_bytes", 0L) < HOST_BYTES) {
        LockSupport.parkNanos(10_000_000);
        answer =
            http.send(
                    HttpRequest.newBuilder(
                            URI.create("http://" + daemon.httpAddress() + "/api/v1/tiers"))
                        .build(),
                    BodyHandlers.ofString())
                .body();
        node = new JsonObject(answer).getJsonObject("numa").getJsonArray("nodes").getJsonObject(0);
      }
      assertEquals(HOST_BYTES, node.getLong("taken_bytes"), answer);
      assertEquals(HOST_BYTES, node.getLong("slab_bytes"), answer);
      assertEquals(FileGpu.PCI_ID, node.getJsonArray("gpus").getString(0));
      assertEquals("", new JsonObject(answer).getJsonObject("numa").getString("trouble"));
      ApiDescription description = ApiDescription.read();
      OutputUnit result = description.validate("/api/v1/tiers", Json.decodeValue(answer));
      assertTrue(result.getValid(), () -> result.toJson().encodePrettily());

      List<String> near = List.of("kvtier-index", "kvtier-copy-0", "kvtier-gpu-0-in");
      Map<String, String> cpus = cpusOfThreads();
      // A thread that has just begun is not there yet.
      while (System.nanoTime() < end && !isNear(near, cpus, cpu)) {
        LockSupport.parkNanos(10_000_000);
        cpus = cpusOfThreads();
      }
      for (String thread : near) {
        assertEquals(String.valueOf(cpu), cpus.get(thread), thread + " in " + cpus);
      }
      assertFalse(
          Runtime.getRuntime().availableProcessors() > 1
              && cpus.getOrDefault("kvtier-sessions", "").equals(String.valueOf(cpu)),
          cpus::toString);
      assertEquals(Status.OK, region.close());
    } finally {
      Files.delete(tensor);
      Files.delete(tensors);
    }
  }
}
