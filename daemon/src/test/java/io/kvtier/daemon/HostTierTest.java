package io.kvtier.daemon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.KvtierdConfig.HostConfig;
import io.kvtier.daemon.config.KvtierdConfig.HostKeeping;
import io.kvtier.daemon.config.KvtierdConfig.HostLedger;
import io.kvtier.daemon.config.KvtierdConfig.HostMemory;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.protocol.linux.ProcessId;
import io.kvtier.tiers.numa.NumaCalls;
import io.kvtier.tiers.numa.NumaFiles;
import io.kvtier.tiers.numa.NumaHomes;
import io.kvtier.tiers.numa.NumaNode;
import io.kvtier.tiers.numa.NumaPlan;
import io.kvtier.tiers.numa.NumaTopology;
import io.kvtier.tiers.slots.Claim;
import io.kvtier.tiers.slots.ClaimNote;
import io.kvtier.tiers.slots.SlotAllocator;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Memory that is kept, and who may let it go. */
final class HostTierTest {
  private static final int SLAB_BYTES = 1 << 20;

  @TempDir private Path folder;

  private HostTier open(Path directory, long keepNs) throws IOException {
    return open(directory, keepNs, 1);
  }

  private HostTier open(Path directory, long keepNs, int slabs) throws IOException {
    return open(directory, keepNs, slabs, NumaHomes.none());
  }

  private HostTier open(Path directory, long keepNs, int slabs, NumaHomes homes)
      throws IOException {
    return new HostTier(
        new HostConfig(
            new HostMemory((long) slabs * SLAB_BYTES, SLAB_BYTES, false, true),
            "lru",
            0.1,
            new HostKeeping(keepNs, directory, HostLedger.MAPPED)),
        Tenants.of(List.of()).regions(List.of(), slabs, 1),
        folder.resolve("kvtierd.sock"),
        64,
        64,
        0,
        homes);
  }

  @Test
  void open_slabsOfSeveralNumaNodes_slotsOfEachNodeAreALane() throws IOException {
    BitSet cpus = new BitSet();
    cpus.set(0);
    NumaTopology twoNodes =
        new NumaTopology(
            List.of(
                new NumaNode(0, cpus, true, 1 << 30, true),
                new NumaNode(1, cpus, true, 1 << 30, true)),
            List.of(),
            Map.of());
    NumaHomes homes =
        new NumaHomes(NumaPlan.of(twoNodes, 4, SLAB_BYTES), new NumaFiles(), NumaCalls.LINUX);
    try (HostTier tier = open(folder, 0, 4, homes)) {
      assertEquals(2, tier.slots().lanes());
      assertEquals(
          List.of(0, 1, 0, 1), IntStream.range(0, 4).mapToObj(tier.slots()::laneOf).toList());
    }
  }

  private static List<Boolean> writable(HostTier tier) {
    return List.of(
        tier.slots().isWritableByOthers(0, SlotAllocator.DAEMON),
        tier.slots().isWritableByOthers(1, SlotAllocator.DAEMON));
  }

  @Test
  void open_memoryOfBefore_onlySlabsThatClientsCouldWrite_areDoubted() throws IOException {
    Path directory = folder.resolve("state");
    long keepNs = 5_000_000_000L;
    try (HostTier first = open(directory, keepNs, 2)) {
      assertEquals(List.of(false, false), writable(first));
      assertEquals(
          folder.resolve("kvtierd.sock") + "\n", Files.readString(directory.resolve("socket")));
      first.slots().addWriter(1, 7);
    }
    try (HostTier second = open(directory, keepNs, 2)) {
      assertTrue(second.slabs().isAdopted());
      assertEquals(List.of(false, true), writable(second));
    }
    // Of no session this time: what was known is handed on.
    try (HostTier third = open(directory, keepNs, 2)) {
      assertEquals(List.of(false, true), writable(third));
    }
    // Nobody can say any more who may be writing where.
    Files.delete(directory.resolve("writers"));
    try (HostTier fourth = open(directory, keepNs, 2)) {
      assertFalse(fourth.slabs().isAdopted());
      assertEquals(List.of(false, false), writable(fourth));
    }
  }

  @Test
  void open_memoryOfBefore_slotsThatClientsWereWriting_areHandedOn() throws IOException {
    Path directory = folder.resolve("state");
    long keepNs = 5_000_000_000L;
    Claim living = new Claim(1, 4096, 8192, ProcessId.of(ProcessHandle.current().pid()));
    Claim unknown = new Claim(0, 0, 4096, ProcessId.UNKNOWN);
    try (HostTier first = open(directory, keepNs, 2)) {
      assertEquals(List.of(), first.lateWriters().late());
      ClaimNote note = first.lateWriters().note();
      note.write(5, 1, 4096, 8192, living.writer());
      note.write(6, 1, 0, 4096, new ProcessId(living.writer().number(), 1));
      note.write(7, 0, 0, 4096, unknown.writer());
    }
    try (HostTier second = open(directory, keepNs, 2)) {
      assertEquals(List.of(living, unknown), second.lateWriters().late());
    }
    try (HostTier third = open(directory, keepNs, 2)) {
      assertEquals(List.of(living, unknown), third.lateWriters().late());
      third.lateWriters().note().clear(0);
    }
    try (HostTier fourth = open(directory, keepNs, 2)) {
      assertEquals(List.of(unknown), fourth.lateWriters().late());
      fourth.letGo();
    }
    try (HostTier fifth = open(directory, keepNs, 2)) {
      assertEquals(List.of(), fifth.lateWriters().late(), "the memory is new");
      fifth.letGo();
    }
  }

  @Test
  void open_nothingIsToBeKept_directoryOfARunningDaemon_isRefused() throws IOException {
    Path directory =
        Files.createDirectory(
            folder.resolve("state"),
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    try (HostTier running = open(directory, 1_000_000_000)) {
      assertEquals(1, running.slabs().slabs());
      IOException refused = assertThrows(IOException.class, () -> open(directory, 0));
      assertTrue(String.valueOf(refused.getMessage()).contains("in use by another daemon"));
      assertTrue(Files.exists(directory.resolve("memory")), "the memory was let go");
      running.abandon();
    }
    open(directory, 0).close();
  }
}
