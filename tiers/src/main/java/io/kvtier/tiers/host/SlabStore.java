package io.kvtier.tiers.host;

import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * The memory of the host tier: equal slabs of sealed shared memory, all of their pages taken at the
 * start, so that the configured size is both promised and never exceeded.
 */
public final class SlabStore implements AutoCloseable {
  private final Arena arena = Arena.ofShared();
  private final Descriptor[] writable;
  private final Descriptor[] readOnly;
  private final MemorySegment[] mappings;
  private final long slabBytes;
  private final boolean isAdopted;
  private final String id;

  /**
   * Makes and maps all slabs, or takes over those that an earlier daemon left.
   *
   * @param kept sees to it that they outlive this process; null: they don't
   * @throws IOException naming the slab when the machine has not that much memory
   */
  public SlabStore(int slabs, long slabBytes, @Nullable KeptSlabs kept) throws IOException {
    this.slabBytes = slabBytes;
    writable = new Descriptor[slabs];
    readOnly = new Descriptor[slabs];
    mappings = new MemorySegment[slabs];
    KeptSlabs.Found found = kept == null ? null : kept.find(slabs, slabBytes);
    isAdopted = found != null;
    id = found != null ? found.id() : UUID.randomUUID().toString();
    if (found == null) {
      requireMemory(slabs * slabBytes);
    }
    try {
      for (int i = 0; i < slabs; i++) {
        writable[i] =
            found != null ? found.slabs().get(i) : SharedMemory.create(nameOf(i), slabBytes);
        readOnly[i] = SharedMemory.readOnly(writable[i]);
        mappings[i] = SharedMemory.map(writable[i], slabBytes, true, arena);
        SharedMemory.adviseHugePages(mappings[i]);
        SharedMemory.populate(writable[i], mappings[i]);
      }
    } catch (IOException e) {
      close();
      throw new IOException(
          "host tier of "
              + slabs
              + " slabs of "
              + slabBytes
              + " bytes does not fit this machine: "
              + e.getMessage()
              + "; lower host.bytes",
          e);
    }
    try {
      if (kept != null) {
        kept.keep(id, List.of(writable), found);
      }
    } catch (IOException | RuntimeException e) {
      close();
      throw e;
    }
  }

  /** The name of a slab's memory file. */
  static String nameOf(int slab) {
    return "kvtier-slab-" + slab;
  }

  /** Whether an earlier daemon left these slabs, with blocks in them. */
  public boolean isAdopted() {
    return isAdopted;
  }

  /** Names the memory, and no other ever: what was written down about it holds for it alone. */
  public String id() {
    return id;
  }

  /** Taking more than there is would not fail: the kernel would kill somebody. */
  private static void requireMemory(long bytes) throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/meminfo"))) {
      if (line.startsWith("MemAvailable:")) {
        long available = Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
        if (bytes > available) {
          throw new IOException(
              "host.bytes is "
                  + bytes
                  + " bytes, but only "
                  + available
                  + " bytes of memory are available: lower host.bytes");
        }
        return;
      }
    }
  }

  public int slabs() {
    return mappings.length;
  }

  public long slabBytes() {
    return slabBytes;
  }

  /** The daemon's own mapping of a slab. */
  public MemorySegment mapping(int slab) {
    return mappings[slab];
  }

  /** The descriptor to pass to a client. */
  public Descriptor descriptor(int slab, boolean forWriting) {
    return forWriting ? writable[slab] : readOnly[slab];
  }

  @Override
  public void close() {
    for (int i = 0; i < writable.length; i++) {
      if (writable[i] != null) {
        writable[i].close();
      }
      if (readOnly[i] != null) {
        readOnly[i].close();
      }
    }
    arena.close();
  }
}
