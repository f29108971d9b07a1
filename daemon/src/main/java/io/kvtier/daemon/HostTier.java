package io.kvtier.daemon;

import io.kvtier.daemon.config.KvtierdConfig.HostConfig;
import io.kvtier.daemon.config.KvtierdConfig.HostLedger;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.session.WriterParts;
import io.kvtier.protocol.SocketPaths;
import io.kvtier.protocol.linux.ProcessId;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.files.FileErrors;
import io.kvtier.tiers.files.LockFile;
import io.kvtier.tiers.host.KeptMemory;
import io.kvtier.tiers.host.SlabHomes;
import io.kvtier.tiers.host.SlabStore;
import io.kvtier.tiers.host.SlabWriters;
import io.kvtier.tiers.ledger.ChronicleLedger;
import io.kvtier.tiers.ledger.Ledger;
import io.kvtier.tiers.ledger.MappedLedger;
import io.kvtier.tiers.ledger.NoLedger;
import io.kvtier.tiers.numa.NumaHomes;
import io.kvtier.tiers.slots.Claim;
import io.kvtier.tiers.slots.RegionLanes;
import io.kvtier.tiers.slots.SlotAllocator;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Deque;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The host tier's memory, and the ledger of its blocks. Both outlive the daemon for a while if
 * {@code host.keep} is set.
 */
final class HostTier implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(HostTier.class);
  private static final Set<PosixFilePermission> OWNER_ONLY =
      PosixFilePermissions.fromString("rwx------");
  private static final int SLOT_ALIGNMENT = 4096;
  private static final String REGIONS_NOTE = "tenants";
  private static final String LOCK = "lock";
  private static final String SOCKET_NOTE = "socket";

  private final Deque<AutoCloseable> parts = new ArrayDeque<>();
  private final SlabStore slabs;
  private final SlotAllocator slots;
  private final Ledger ledger;
  private final WriterParts lateWriters;
  private @Nullable KeptMemory keptMemory;
  private @Nullable Path keptDirectory;
  private @Nullable SlabWriters writers;

  /**
   * Takes new memory, or takes over the memory of an earlier daemon.
   *
   * @param socket of this daemon; a daemon with another socket has its own memory
   * @param blocksMax the most blocks that can be in all tiers
   * @param regions the tenant of each slab; memory with another division is not taken over
   * @param holdsMax the most slots that clients can be writing
   * @param annotationBytes the most memory for annotations that are kept with the ledger
   * @param numa the NUMA nodes that the memory comes from
   * @throws IOException in words what can't be had
   */
  HostTier(
      HostConfig config,
      Tenants.Regions regions,
      Path socket,
      int blocksMax,
      int holdsMax,
      long annotationBytes,
      NumaHomes numa)
      throws IOException {
    try {
      if (config.keeping().keepNs() == 0) {
        if (Files.exists(directoryOf(config, socket), LinkOption.NOFOLLOW_LINKS)) {
          // An earlier daemon kept its memory, and this daemon is configured not to keep memory.
          Path directory = directory(config, socket);
          keep(lock(directory));
          new KeptMemory(directory, 0).letGo();
        }
        slabs =
            keep(
                new SlabStore(config.memory().slabs(), config.memory().slabBytes(), 0, null, numa));
        slots = slotsOf(slabs, regions);
        lateWriters = WriterParts.ofNewMemory(holdsMax, slots.slotsMax());
        ledger = new NoLedger();
      } else {
        Path directory = directory(config, socket);
        keep(lock(directory));
        // The folder's name is a hash of the socket's name, so the name itself is noted.
        Files.writeString(directory.resolve(SOCKET_NOTE), socket.toAbsolutePath() + "\n");
        long seconds = Math.ceilDiv(config.keeping().keepNs(), 1_000_000_000L);
        KeptMemory kept = keep(new KeptMemory(directory, seconds));
        if (!isNoted(directory, regions.text())) {
          // Clients still map slabs of their tenant that can belong to another tenant now.
          kept.letGo();
          Files.writeString(directory.resolve(REGIONS_NOTE), regions.text());
        }
        keptMemory = kept;
        keptDirectory = directory;
        boolean isMapped = config.keeping().ledger() == HostLedger.MAPPED;
        long besideBytes =
            isMapped
                ? MappedLedger.bytesFor(
                    config.memory().slabs(), config.memory().slabBytes(), annotationBytes)
                : SharedMemory.PAGE_BYTES;
        SlabWriters.Earlier earlier = writersOfEarlier(kept, directory, config.memory().slabs());
        kept.beforeHandOver(next -> SlabWriters.handOver(directory, next));
        slabs =
            keep(
                new SlabStore(
                    config.memory().slabs(), config.memory().slabBytes(), besideBytes, kept, numa));
        slots = slotsOf(slabs, regions);
        lateWriters = noteWriters(directory, kept.keeperProcess(), earlier, holdsMax);
        ledger =
            keep(
                isMapped
                    ? new MappedLedger(
                        slabs.beside(),
                        config.memory().slabs(),
                        config.memory().slabBytes(),
                        annotationBytes)
                    : chronicle(directory, blocksMax, annotationBytes));
      }
    } catch (IOException | RuntimeException e) {
      close();
      throw e;
    }
  }

  /** The slots of all slabs, in a lane for each NUMA node. */
  private static SlotAllocator slotsOf(SlabStore slabs, Tenants.Regions regions) {
    SlabHomes homes = slabs.homes();
    return new SlotAllocator(
        regions.toArray(),
        regions.tenants(),
        slabs.slabBytes(),
        SLOT_ALIGNMENT,
        homes.count() == 1
            ? RegionLanes.inTurn(slabs.slabs(), 1)
            : new RegionLanes(homes.homeOfSlab(), homes.count()));
  }

  /**
   * The clients of earlier daemons that may still write to the memory. If they are not known, the
   * memory is given up: any slot could change while the next client uses it.
   */
  private static SlabWriters.Earlier writersOfEarlier(KeptMemory kept, Path directory, int slabs)
      throws IOException {
    long keeper = kept.notedProcess();
    SlabWriters.Earlier earlier = SlabWriters.ofEarlier(directory, slabs, keeper);
    if (earlier != null) {
      return earlier;
    }
    if (keeper != 0 && ProcessId.of(keeper).isKnown()) {
      LOG.warn(
          "the memory that an earlier daemon left with process {} is given up, with the blocks in"
              + " it: it is of other sizes (host.bytes, host.slab_bytes or limits changed), or its"
              + " daemon, of an earlier release, did not note which slots its clients were writing",
          keeper);
    }
    kept.letGo();
    return SlabWriters.Earlier.nothing();
  }

  /**
   * Notes the writers: clients of earlier daemons may still write to the slabs that they have
   * mapped.
   */
  private WriterParts noteWriters(
      Path directory, long keeper, SlabWriters.Earlier earlier, int holdsMax) throws IOException {
    SlabWriters.Earlier before = slabs.isAdopted() ? earlier : SlabWriters.Earlier.nothing();
    before.writable().stream().forEach(slab -> slots.addWriter(slab, SlotAllocator.UNKNOWN));
    int places = WriterParts.places(holdsMax, slots.slotsMax());
    int lateMax = WriterParts.lateMax(slots.slotsMax());
    BitSet doubtful = (BitSet) before.doubtful().clone();
    List<Claim> late = new ArrayList<>();
    for (Claim claim : before.claims()) {
      if (!claim.writer().isGone()) {
        if (late.size() < lateMax) {
          late.add(claim);
        } else {
          doubtful.set(claim.region());
        }
      }
    }
    SlabWriters made =
        keep(
            new SlabWriters(
                directory,
                slabs.slabs(),
                places,
                keeper,
                new SlabWriters.Earlier(before.writable(), doubtful, late)));
    slots.onFirstWriter(made::add);
    writers = made;
    return new WriterParts(made, places, lateMax, late, doubtful, ProcessId::isGone);
  }

  private static boolean isNoted(Path directory, String regions) throws IOException {
    try {
      return Files.readString(directory.resolve(REGIONS_NOTE)).equals(regions);
    } catch (NoSuchFileException e) {
      return regions.isEmpty();
    }
  }

  /** Two daemons with one memory would overwrite each other's blocks. */
  private static FileChannel lock(Path directory) throws IOException {
    FileChannel lock;
    try {
      lock = LockFile.take(directory.resolve(LOCK));
    } catch (IOException e) {
      throw new IOException(
          "host.directory '" + directory + "' can't be used: " + FileErrors.words(e), e);
    }
    if (lock == null) {
      throw new IOException(
          "host.directory '"
              + directory
              + "' is in use by another daemon, "
              + LockFile.holder(directory.resolve(LOCK))
              + ": choose another host.directory");
    }
    return lock;
  }

  private Ledger chronicle(Path directory, int blocksMax, long annotationBytes) throws IOException {
    ChronicleLedger opened =
        new ChronicleLedger(
            directory.resolve("ledger"), Math.min(slots.slotsMax(), blocksMax), annotationBytes);
    if (!opened.openingReport().isEmpty()) {
      LOG.warn("{}", opened.openingReport());
    }
    // The file can describe other memory than this.
    long id = Words.getLong(slabs.beside(), 0);
    if (id == 0) {
      id = new SecureRandom().nextLong() | 1;
      Words.putLong(slabs.beside(), 0, id);
    }
    String layout = Long.toHexString(id);
    if (!opened.layout().equals(layout)) {
      opened.clear();
      opened.setLayout(layout);
      opened.commit(false);
    }
    return opened;
  }

  private static Path directoryOf(HostConfig config, Path socket) {
    if (!config.keeping().directory().toString().isEmpty()) {
      return config.keeping().directory();
    }
    String name = socket.toAbsolutePath().normalize().toString();
    UUID hash = UUID.nameUUIDFromBytes(name.getBytes(StandardCharsets.UTF_8));
    Path memory = Path.of("/dev/shm");
    return (Files.isWritable(memory) ? memory : Path.of("/tmp"))
        .resolve("kvtier-" + SocketPaths.uid() + "-" + hash.toString().substring(0, 8));
  }

  private static Path directory(HostConfig config, Path socket) throws IOException {
    Path directory = directoryOf(config, socket);
    try {
      Files.createDirectory(directory, PosixFilePermissions.asFileAttribute(OWNER_ONLY));
    } catch (FileAlreadyExistsException e) {
      // The folder exists from the second start on.
    } catch (IOException e) {
      throw new IOException(
          "host.directory '" + directory + "' can't be made: " + FileErrors.ofMaking(e), e);
    }
    Object owner = Files.getAttribute(directory, "unix:uid", LinkOption.NOFOLLOW_LINKS);
    if (!Files.isDirectory(directory, LinkOption.NOFOLLOW_LINKS)
        || !Objects.equals(owner, SocketPaths.uid())
        || !Files.getPosixFilePermissions(directory).equals(OWNER_ONLY)) {
      throw new IOException(
          "host.directory '"
              + directory
              + "' must be a directory of user "
              + SocketPaths.uid()
              + " with mode 0700: who can write there chooses what this daemon takes for its memory;"
              + " give it a folder of its own (a missing one is made), or chmod 700");
    }
    return directory;
  }

  private <T extends AutoCloseable> T keep(T part) {
    parts.push(part);
    return part;
  }

  SlabStore slabs() {
    return slabs;
  }

  SlotAllocator slots() {
    return slots;
  }

  Ledger ledger() {
    return ledger;
  }

  /** The known and noted writers of the slabs. */
  WriterParts lateWriters() {
    return lateWriters;
  }

  /** The folder of the notes about kept memory; null if no memory is kept. */
  @Nullable Path directory() {
    return keptDirectory;
  }

  /**
   * Starts another keeper process whenever the keeper is ended from outside.
   *
   * @param restarts called for each new keeper
   * @param isKept told when a keeper comes or goes
   */
  void watchKeeper(Runnable restarts, Consumer<Boolean> isKept) {
    KeptMemory kept = keptMemory;
    SlabWriters noted = writers;
    if (kept == null || noted == null) {
      return;
    }
    kept.watch(
        new KeptMemory.Watch() {
          @Override
          public void restarted(long keeperProcess) throws IOException {
            noted.setKeeper(keeperProcess);
            restarts.run();
          }

          @Override
          public void isKept(boolean is) {
            isKept.accept(is);
          }
        });
    // Before the notes and the memory are closed.
    parts.push(kept::endWatch);
  }

  /**
   * Keeps the memory for the next start. Returns the reason if that is not possible, else nothing.
   */
  String requireKeeper() {
    KeptMemory kept = keptMemory;
    if (kept == null) {
      return "";
    }
    kept.endWatch();
    return kept.failure();
  }

  /** The process that keeps the memory when this one has ended; 0 for none. */
  long keeperProcess() {
    return keptMemory == null ? 0 : keptMemory.keeperProcess();
  }

  /**
   * Called when the daemon does not start: new memory is not kept for the next start, memory that
   * was taken over is kept.
   */
  void abandon() {
    if (keptMemory == null || slabs.isAdopted()) {
      return;
    }
    try {
      keptMemory.letGo();
    } catch (IOException e) {
      LOG.warn("the memory of a daemon that did not start stays for a while", e);
    }
  }

  /**
   * Whether the memory has no block that a next daemon could use; valid after the index has
   * stopped.
   */
  boolean isEmpty() {
    return slots.bytesUsed() == 0;
  }

  /** Keeps no memory for a next daemon, not even memory that was taken over. */
  void letGo() {
    if (keptMemory == null) {
      return;
    }
    try {
      keptMemory.letGo();
    } catch (IOException e) {
      LOG.warn("memory without a block in it stays for a while", e);
    }
  }

  @Override
  public void close() {
    Parts.close(parts);
  }
}
