package io.kvtier.tiers.host;

import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.tiers.files.ByteSize;
import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.numa.NumaHomes;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The memory of the host tier: equal slabs of sealed shared memory, so that the configured size is
 * never exceeded. {@link PageTaker} takes their pages.
 */
public final class SlabStore implements AutoCloseable {
  private final Arena arena = Arena.ofShared();
  private final Descriptor[] writable;
  private final Descriptor[] readOnly;
  private final MemorySegment[] mappings;
  private final long slabBytes;
  private final boolean isAdopted;
  private final SlabHomes homes;
  private @Nullable Descriptor besideFile;
  private MemorySegment beside = MemorySegment.NULL;

  /** Makes and maps all slabs; they go with this process. */
  public SlabStore(int slabs, long slabBytes) throws IOException {
    this(slabs, slabBytes, 0, null, NumaHomes.none());
  }

  /**
   * Makes and maps all slabs, or takes over those that an earlier daemon left.
   *
   * @param besideBytes memory that comes and goes with the slabs; none of it is taken before it is
   *     used
   * @param kept sees to it that they outlive this process; null: they don't
   * @param numa the NUMA nodes that the slabs' pages come from
   * @throws IOException naming the slab when the machine has not that much memory
   */
  public SlabStore(
      int slabs, long slabBytes, long besideBytes, @Nullable KeptMemory kept, NumaHomes numa)
      throws IOException {
    this.slabBytes = slabBytes;
    writable = new Descriptor[slabs];
    readOnly = new Descriptor[slabs];
    mappings = new MemorySegment[slabs];
    List<KeptMemory.Wanted> wanted = wanted(slabs, slabBytes, besideBytes);
    KeptMemory.Found found = kept == null ? null : kept.find(wanted);
    isAdopted = found != null;
    homes = new SlabHomes(numa, slabs);
    if (found == null) {
      requireMemory(slabs * slabBytes);
    }
    try {
      List<Descriptor> files = found != null ? found.files() : create(wanted);
      besideFile = files.get(slabs);
      for (int i = 0; i < slabs; i++) {
        writable[i] = files.get(i);
        readOnly[i] = SharedMemory.readOnly(writable[i]);
        mappings[i] = SharedMemory.map(writable[i], slabBytes, true, arena);
        SharedMemory.adviseHugePages(mappings[i]);
        homes.prepare(i, mappings[i], isAdopted);
      }
      beside = SharedMemory.map(besideFile, wanted.get(slabs).bytes(), true, arena);
      if (kept != null) {
        kept.keep(files, found);
      }
    } catch (IOException e) {
      close();
      throw new IOException(
          "host tier of "
              + slabs
              + " slabs of "
              + slabBytes
              + " bytes does not fit this machine: "
              + FileErrors.withCure(FileErrors.words(e), "lower host.bytes"),
          e);
    }
  }

  private static List<KeptMemory.Wanted> wanted(int slabs, long slabBytes, long besideBytes) {
    List<KeptMemory.Wanted> wanted = new ArrayList<>();
    for (int i = 0; i < slabs; i++) {
      wanted.add(new KeptMemory.Wanted("kvtier-slab-" + i, slabBytes));
    }
    wanted.add(
        new KeptMemory.Wanted("kvtier-rows", Math.max(SharedMemory.PAGE_BYTES, besideBytes)));
    return wanted;
  }

  private static List<Descriptor> create(List<KeptMemory.Wanted> wanted) throws IOException {
    List<Descriptor> files = new ArrayList<>();
    try {
      for (KeptMemory.Wanted one : wanted) {
        files.add(SharedMemory.create(one.name(), one.bytes()));
      }
      return files;
    } catch (IOException e) {
      files.forEach(Descriptor::close);
      throw e;
    }
  }

  /** Whether an earlier daemon left these slabs, with blocks in them. */
  public boolean isAdopted() {
    return isAdopted;
  }

  /** The memory that comes and goes with the slabs: zeros, or what an earlier daemon left there. */
  public MemorySegment beside() {
    return beside;
  }

  /** Taking more than there is would not fail: the kernel would kill somebody. */
  private static void requireMemory(long bytes) throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/meminfo"))) {
      if (line.startsWith("MemAvailable:")) {
        long available = Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
        if (bytes > available) {
          throw new IOException(
              "host.bytes is "
                  + ByteSize.words(bytes)
                  + ", but only "
                  + ByteSize.words(available)
                  + " of memory are available: lower host.bytes");
        }
        return;
      }
    }
  }

  /** The NUMA nodes of the slabs. */
  public SlabHomes homes() {
    return homes;
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

  /**
   * Takes the pages of a slab that it has not yet; what stands there stays.
   *
   * @throws IOException when the machine has not that much memory
   */
  void takePages(int slab) throws IOException {
    homes.take(slab, mappings[slab], () -> SharedMemory.populate(writable[slab], mappings[slab]));
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
    if (besideFile != null) {
      besideFile.close();
    }
    arena.close();
  }
}
