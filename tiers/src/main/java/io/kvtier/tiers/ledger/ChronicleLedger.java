package io.kvtier.tiers.ledger;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import net.openhft.chronicle.map.ChronicleMap;
import net.openhft.chronicle.map.ChronicleMapBuilder;
import org.jspecify.annotations.Nullable;

/**
 * A ledger in a Chronicle map, mapped into memory: for a tier whose index writes its rows itself,
 * at once, and for a medium that is memory too. A row is written whole when its call returns, or
 * not at all, so that {@link #commit} only writes the namespaces and the layout. Rows do not
 * outlast a loss of power.
 *
 * <p>Files:
 *
 * <ul>
 *   <li>{@code NAME} has the rows; its space is taken at the start
 *   <li>{@code NAME.names}, {@code NAME.lock}, and {@code NAME.damaged-TIME}
 *   <li>{@code NAME.clean}, while no process has the ledger open, and the last one closed it
 *   <li>the files of {@link ChronicleAnnotations}
 * </ul>
 */
public final class ChronicleLedger extends NamedLedger {
  /** Entries for each place: places spread unevenly over the map's segments. */
  private static final double SPARE = 1.1;

  private static final long ENTRIES_MIN = 1024;

  private final Path directory;
  private final String name;
  private final Path file;
  private final Path namesFile;
  private final Path cleanFile;
  private final long places;
  private final FileChannel lock;
  private final long annotationBytes;
  private final LedgerRow row = new LedgerRow();
  private @Nullable ChronicleAnnotations annotations;
  private @Nullable ChronicleMap<Long, LedgerRow> map;

  /**
   * Opens the ledger in a file, or makes it. A ledger that can't be repaired is moved aside, and a
   * ledger for another number of places is dropped: {@link #openingReport} then says so.
   *
   * @param placesMax the most different places
   * @param annotationBytes space for annotations; 0: none are kept
   * @throws IOException naming the directory and what is wrong with it
   */
  public ChronicleLedger(Path file, long placesMax, long annotationBytes) throws IOException {
    if (placesMax <= 0) {
      throw new IllegalArgumentException("a ledger has at least one place, not " + placesMax);
    }
    this.file = file.toAbsolutePath();
    directory = Path.of(String.valueOf(this.file.getParent()));
    name = String.valueOf(file.getFileName());
    namesFile = directory.resolve(name + ".names");
    cleanFile = directory.resolve(name + ".clean");
    places = placesMax;
    this.annotationBytes = annotationBytes;
    lock = LedgerFiles.lock(directory, name);
    // Otherwise Chronicle reports its use to a server of its makers.
    System.setProperty("chronicle.analytics.disable", "true");
    try {
      openOrReplace();
    } catch (IOException | RuntimeException e) {
      closeFiles();
      throw e;
    }
  }

  private void openOrReplace() throws IOException {
    boolean clean = Files.deleteIfExists(cleanFile);
    boolean isKept = openOrReplaceRows(clean);
    if (annotationBytes > 0) {
      annotations = new ChronicleAnnotations(directory, name, annotationBytes, clean);
      if (!isKept) {
        annotations.clear();
      }
    }
  }

  /** Returns whether the rows are those of an earlier process. */
  private boolean openOrReplaceRows(boolean clean) throws IOException {
    boolean there = Files.exists(file);
    if (there && readNames() && isHeadIntact()) {
      try {
        map = ChronicleMaps.open(builder(), file, clean);
        return true;
      } catch (IOException | RuntimeException e) {
        openingReport =
            LedgerFiles.report(
                directory, String.valueOf(e.getMessage()), LedgerFiles.moveAside(directory, name));
      }
    }
    Files.deleteIfExists(file);
    names = new LedgerNames();
    names.places = places;
    names.write(namesFile, true);
    map = ChronicleMaps.make(builder(), file, "the rows of " + places + " places", "limits.blocks");
    names.headBytes = ChronicleHead.bytes(file);
    names.headChecksum = ChronicleHead.checksum(file, names.headBytes);
    names.write(namesFile, true);
    return false;
  }

  /** A file whose head is damaged is moved aside. */
  private boolean isHeadIntact() throws IOException {
    if (names.headBytes == 0) {
      // A process was killed while it made the file, which never had a row.
      return false;
    }
    if (ChronicleHead.isIntact(file, names.headBytes, names.headChecksum)) {
      return true;
    }
    openingReport =
        LedgerFiles.report(
            directory, "its head was changed", LedgerFiles.moveAside(directory, name));
    return false;
  }

  /** Whether the file has names that can be read, and as many places as this ledger. */
  private boolean readNames() throws IOException {
    try {
      names = LedgerNames.read(namesFile);
    } catch (IOException e) {
      String damage = e instanceof NoSuchFileException ? "its names are gone" : e.getMessage();
      openingReport =
          LedgerFiles.report(
              directory, String.valueOf(damage), LedgerFiles.moveAside(directory, name));
      return false;
    }
    if (names.places != places) {
      openingReport =
          "the ledger in '"
              + directory
              + "' was made for "
              + names.places
              + " places, not for "
              + places
              + ": an empty one takes its place";
      return false;
    }
    return true;
  }

  private ChronicleMapBuilder<Long, LedgerRow> builder() {
    return ChronicleMapBuilder.of(Long.class, LedgerRow.class)
        .name("kvtier-ledger")
        .entries(Math.max(ENTRIES_MIN, (long) (places * SPARE)))
        .valueMarshallers(RowMarshaller.INSTANCE, RowMarshaller.INSTANCE)
        .constantValueSizeBySample(row)
        // Rows have a checksum of their own.
        .checksumEntries(false)
        .putReturnsNull(true)
        .removeReturnsNull(true);
  }

  @Override
  public void record(long place, LedgerEntry entry) {
    row.encodePlain(place, entry);
    opened().put(place, row);
    if (annotations != null) {
      annotations.record(place, row.getInt(LedgerEntryDescriptor.ROW_CHECKSUM_OFFSET), entry);
    }
  }

  @Override
  public void forget(long place) {
    opened().remove(place);
    if (annotations != null) {
      annotations.forget(place);
    }
  }

  @Override
  public void clear() {
    opened().clear();
    if (annotations != null) {
      annotations.clear();
    }
    clearNames();
  }

  /** Writes the namespaces and the layout; the rows are there already. */
  @Override
  public void commit(boolean sync) throws IOException {
    if (!namesChanged) {
      return;
    }
    try {
      names.write(namesFile, sync);
    } catch (IOException e) {
      throw new IOException(
          "ledger in '"
              + directory
              + "': layout and namespaces are not committed, and will be tried again with the next"
              + " commit: "
              + e,
          e);
    }
    namesChanged = false;
  }

  /** Also drops damaged rows. */
  @Override
  public void forEach(EntryVisitor visitor) {
    LedgerEntry entry = new LedgerEntry();
    LedgerRow shown = new LedgerRow();
    List<Long> damaged = new ArrayList<>();
    opened()
        .forEachEntry(found -> {
          long place = found.key().get();
          found.value().getUsing(shown);
          entry.annotationBytes = 0;
          if (shown.decode(place, entry)) {
            if (annotations != null) {
              annotations.load(
                  place, shown.getInt(LedgerEntryDescriptor.ROW_CHECKSUM_OFFSET), entry);
            }
            visitor.visit(place, entry);
          } else {
            damaged.add(place);
          }
        });
    damagedRows += damaged.size();
    damaged.forEach(this::forget);
  }

  @Override
  public long bytes() {
    return file.toFile().length()
        + namesFile.toFile().length()
        + (annotations == null ? 0 : annotations.bytes());
  }

  private ChronicleMap<Long, LedgerRow> opened() {
    if (map == null) {
      throw new IllegalStateException("the ledger in '" + directory + "' is not open");
    }
    return map;
  }

  @Override
  public void close() {
    if (map == null) {
      return;
    }
    closeMaps();
    try {
      Files.createFile(cleanFile);
    } catch (IOException e) {
      throw new UncheckedIOException("ledger in '" + directory + "' can't be closed in order", e);
    } finally {
      closeFiles();
    }
  }

  private void closeMaps() {
    if (annotations != null) {
      annotations.close();
      annotations = null;
    }
    if (map != null) {
      map.close();
      map = null;
    }
  }

  private void closeFiles() {
    closeMaps();
    try {
      lock.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
