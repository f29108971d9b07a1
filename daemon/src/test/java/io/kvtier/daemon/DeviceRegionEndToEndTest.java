package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.client.DeviceRegion;
import io.kvtier.client.DeviceRegion.Selection;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.client.RegionSpec;
import io.kvtier.daemon.config.ConfigException;
import io.kvtier.daemon.config.ConfigLoader;
import io.kvtier.daemon.gpu.FileGpu;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.tiers.gpu.GpuProbe;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Device memory by raw handles, from Java's client through a whole daemon and back. */
final class DeviceRegionEndToEndTest {
  private static final int LAYERS = 3;
  private static final int BLOCKS = 10;
  private static final int CELL = 256;
  private static final int LAYER_BYTES = 2 * BLOCKS * CELL;

  @TempDir Path temporary = Path.of("");

  private static RegionSpec spec(Path file, int blocks) {
    return spec(new RegionSpec.Allocation(FileGpu.handle(file)), blocks);
  }

  private static RegionSpec spec(RegionSpec.Memory memory, int blocks) {
    List<RegionSpec.Tensor> tensors = new ArrayList<>();
    for (int layer = 0; layer < LAYERS; layer++) {
      tensors.add(new RegionSpec.Tensor(memory, (long) layer * LAYER_BYTES));
    }
    RegionSpec.Part part =
        new RegionSpec.Part(
            "kv",
            "CBD",
            List.of(2L, (long) blocks, (long) CELL),
            List.of((long) blocks * CELL, (long) CELL, 1L),
            1);
    return new RegionSpec(
        FileGpu.UUID, LAYERS, blocks, 1, "LCND", List.of(part), tensors, List.of());
  }

  private static byte[] block(byte[] all, int number) {
    byte[] block = new byte[LAYERS * 2 * CELL];
    for (int plane = 0; plane < LAYERS * 2; plane++) {
      System.arraycopy(all, (plane * BLOCKS + number) * CELL, block, plane * CELL, CELL);
    }
    return block;
  }

  private static Keys keys(int... numbers) {
    return Keys.of(
        Arrays.stream(numbers)
            .mapToObj(number -> ByteBuffer.allocate(16).putInt(number).array())
            .toList());
  }

  @Test
  void putAndGet_byLayers_sameBytesInOtherBlocks() throws Exception {
    Path folder = Files.createTempDirectory(Path.of("/dev/shm"), "kvj");
    Path file = folder.resolve("kv");
    byte[] noise = new byte[LAYERS * LAYER_BYTES];
    new Random(1).nextBytes(noise);
    Files.write(file, noise);
    Path socket = temporary.resolve("k.sock");
    FileGpu gpu = new FileGpu(folder, 0);
    try (Daemon _ = daemon(socket, gpu);
        KvtierClient client =
            KvtierClient.builder().socket(socket).timeout(Duration.ofSeconds(50)).build()) {
      assertEquals(Status.OK, client.blocking().ping().status());
      Namespace namespace = client.namespace("java", LAYERS * 2 * CELL, Map.of());
      DeviceRegion.Result refused = namespace.registerRegion(spec(file, BLOCKS + 1));
      assertEquals(Status.INVALID_ARGUMENT, refused.status());
      assertTrue(refused.detail().contains("is not within its allocation"), refused.detail());
      DeviceRegion region = namespace.registerRegion(spec(file, BLOCKS)).region();
      assertNotNull(region);
      Keys some = keys(1, 2, 3);
      Options options = Options.DEFAULT;
      assertTrue(
          region
              .put(some, new Selection(new int[] {4, 5, 6}, 1, 3, 0), options)
              .get()
              .blocks()
              .all(Status.OK));
      assertEquals(Status.PENDING, namespace.lookup(some).get().blocks().status(0));
      assertTrue(
          region
              .put(some, new Selection(new int[] {4, 5, 6}, 0, 1, 0), options)
              .get()
              .blocks()
              .all(Status.OK));
      assertEquals(3, namespace.lookup(some).get().run());
      assertTrue(region.get(some, Selection.of(9, 8, 7), options).get().blocks().all(Status.OK));
      byte[] after = Files.readAllBytes(file);
      for (int i = 0; i < 3; i++) {
        assertArrayEquals(block(noise, 4 + i), block(after, 9 - i));
        assertArrayEquals(block(noise, i), block(after, i));
      }
      assertEquals(
          Status.INVALID_ARGUMENT,
          region.get(some, Selection.of(9, 8, BLOCKS), options).get().status());
      assertEquals(Status.OK, region.close());
      assertEquals(0, gpu.mappings());
    } finally {
      Files.delete(file);
      Files.delete(folder);
    }
  }

  @Test
  void memoryInPieces_passedAsDescriptors_isUsedAsAnyOther() throws Exception {
    Path folder = Files.createTempDirectory(Path.of("/dev/shm"), "kvj");
    Path socket = temporary.resolve("k.sock");
    FileGpu gpu = new FileGpu(folder, 0);
    long page = SharedMemory.PAGE_BYTES;
    try (Daemon _ = daemon(socket, gpu);
        Descriptor large = SharedMemory.create("large", 2 * page);
        Descriptor other = SharedMemory.create("other", 2 * page);
        Descriptor small = SharedMemory.create("small", page);
        Arena arena = Arena.ofShared();
        KvtierClient client =
            KvtierClient.builder().socket(socket).timeout(Duration.ofSeconds(50)).build()) {
      byte[] noise = new byte[(int) (5 * page)];
      new Random(2).nextBytes(noise);
      MemorySegment[] mapped = {
        SharedMemory.map(large, 2 * page, true, arena),
        SharedMemory.map(other, 2 * page, true, arena),
        SharedMemory.map(small, page, true, arena)
      };
      long at = 0;
      for (MemorySegment each : mapped) {
        each.copyFrom(MemorySegment.ofArray(noise).asSlice(at, each.byteSize()));
        at += each.byteSize();
      }
      Namespace namespace = client.namespace("java", LAYERS * 2 * CELL, Map.of());
      RegionSpec.Exported memory =
          new RegionSpec.Exported(
              List.of(
                  new RegionSpec.Piece(large.number(), 2 * page),
                  new RegionSpec.Piece(other.number(), 2 * page),
                  new RegionSpec.Piece(small.number(), page)));
      int before = openFiles();
      for (int round = 0; round < 3; round++) {
        DeviceRegion region = namespace.registerRegion(spec(memory, BLOCKS)).region();
        assertNotNull(region);
        Keys some = keys(10 * round + 1, 10 * round + 2);
        assertTrue(
            region.put(some, Selection.of(4, 0), Options.DEFAULT).get().blocks().all(Status.OK));
        assertTrue(
            region.get(some, Selection.of(9, 8), Options.DEFAULT).get().blocks().all(Status.OK));
        assertEquals(Status.OK, region.close());
        assertEquals(0, gpu.mappings());
      }
      byte[] after = new byte[noise.length];
      at = 0;
      for (MemorySegment each : mapped) {
        MemorySegment.ofArray(after).asSlice(at, each.byteSize()).copyFrom(each);
        at += each.byteSize();
      }
      assertArrayEquals(block(noise, 4), block(after, 9));
      assertArrayEquals(block(noise, 0), block(after, 8));
      // What is refused is used up, too; nothing of it stays open.
      DeviceRegion.Result refused = namespace.registerRegion(spec(memory, 4 * BLOCKS));
      assertEquals(Status.INVALID_ARGUMENT, refused.status());
      assertTrue(refused.detail().contains("is not within its allocation"), refused.detail());
      assertEquals(before, openFiles());
    } finally {
      Files.delete(folder);
    }
  }

  private static int openFiles() throws IOException {
    try (Stream<Path> all = Files.list(Path.of("/proc/self/fd"))) {
      return (int) all.filter(each -> isPiece(each)).count();
    }
  }

  private static boolean isPiece(Path descriptor) {
    try {
      return Files.readSymbolicLink(descriptor).toString().matches("/memfd:(large|other|small).*");
    } catch (IOException e) {
      return false;
    }
  }

  /**
   * The eleventh fault that users of other caches report, "GPU memory taken from the engine":
   * pinning at boot that takes 616 MiB on the device.
   */
  @Test
  void wound11_gpuMemoryTakenFromTheEngine() throws Exception {
    Path folder = Files.createTempDirectory(Path.of("/dev/shm"), "kvj");
    Path file = folder.resolve("kv");
    Files.write(file, new byte[LAYERS * LAYER_BYTES]);
    Path socket = temporary.resolve("k.sock");
    FileGpu gpu = new FileGpu(folder, 0);
    try (Daemon _ = daemon(socket, gpu);
        KvtierClient client =
            KvtierClient.builder().socket(socket).timeout(Duration.ofSeconds(50)).build()) {
      Namespace namespace = client.namespace("java", LAYERS * 2 * CELL, Map.of());
      assertEquals(0, gpu.contexts(), "nothing is taken before an engine asks");
      assertEquals(0, gpu.allocatedBytes());
      DeviceRegion region = namespace.registerRegion(spec(file, BLOCKS)).region();
      assertNotNull(region);
      long taken = gpu.allocatedBytes();
      assertTrue(taken > 0 && taken <= 128 << 20, taken + " bytes, gpu.staging_bytes is 128 MiB");
      assertTrue(
          client.blocking().stats().text().contains("\"staging_bytes\":" + taken),
          "and the operator sees it");
    } finally {
      Files.delete(file);
      Files.delete(folder);
    }
  }

  private static Daemon daemon(Path socket, FileGpu gpu) throws IOException {
    try {
      return new Daemon(
          ConfigLoader.load(
              null,
              List.of(
                  "socket.path=" + socket,
                  "host.bytes=64MiB",
                  "host.keep=0",
                  "ssd.bytes=0",
                  "grpc.enabled=false",
                  "http.enabled=false")),
          () -> new GpuProbe.Found(gpu));
    } catch (ConfigException e) {
      throw new IOException(e);
    }
  }
}
