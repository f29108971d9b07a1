package io.kvtier.tiers.ledger;

import io.kvtier.protocol.linux.DirectFile;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32C;
import net.openhft.chronicle.hash.ChronicleHashCorruption;
import net.openhft.chronicle.map.ChronicleMap;
import net.openhft.chronicle.map.ChronicleMapBuilder;
import org.jspecify.annotations.Nullable;

/**
 * A ledger in a Chronicle map, mapped into memory: for a tier whose index writes its rows itself,
 * at once, and for a medium that is memory too. Each row counts when its call returns, whole or not
 * at all, so that {@link #commit} has only the namespaces and the layout to write. Never against
 * the loss of power.
 *
 * <p>Files: NAME with the rows, all of its space taken at the start, since a mapped file that finds
 * no space kills the process; {@code NAME.names}, {@code NAME.lock}; {@code NAME.clean} while no
 * process has it open and the last one ended in order; {@code NAME.damaged-TIME}.
 */
public final class ChronicleLedger extends NamedLedger {
  /** More than there are places, as they spread unevenly over the map's segments. */
  private static final double SPARE = 1.1;

  private static final long ENTRIES_MIN = 1024;

  // How the file begins, which never changes again: u64 checksum, u32 length, and a text so long.
  private static final int HEAD_LENGTH_OFFSET = 8;
  private static final int HEAD_TEXT_OFFSET = 12;
  private static final int HEAD_BYTES_MAX = 1 << 16;

  private final Path directory;
  private final String name;
  private final Path file;
  private final Path namesFile;
  private final Path cleanFile;
  private final long places;
  private final FileChannel lock;
  private final LedgerRow row = new LedgerRow();
  private @Nullable ChronicleMap<Long, LedgerRow> map;
  private long repairs;

  /**
   * Opens the ledger in a file, or makes it. One that can't be repaired is moved aside, one that
   * was made for another number of places is dropped: {@link #openingReport} then says so.
   *
   * @param placesMax how many different places there are, at most
   * @throws IOException naming the directory and what is wrong with it
   */
  public ChronicleLedger(Path file, long placesMax) throws IOException {
    if (placesMax <= 0) {
      throw new IllegalArgumentException("a ledger has at least one place, not " + placesMax);
    }
    this.file = file.toAbsolutePath();
    directory = Path.of(String.valueOf(this.file.getParent()));
    name = String.valueOf(file.getFileName());
    namesFile = directory.resolve(name + ".names");
    cleanFile = directory.resolve(name + ".clean");
    places = placesMax;
    lock = LedgerFiles.lock(directory, name);
    // It would report its use to its maker's server.
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
    boolean there = Files.exists(file);
    if (there && readNames() && isHeadIntact()) {
      try {
        map =
            clean
                ? builder().createPersistedTo(file.toFile())
                : builder()
                    .recoverPersistedTo(
                        file.toFile(),
                        true,
                        (ChronicleHashCorruption.Listener) corruption -> repairs++);
        return;
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
    map = builder().createPersistedTo(file.toFile());
    try {
      DirectFile.open(file, Files.size(file)).close();
    } catch (IOException e) {
      throw new IOException(
          "ledger in '" + directory + "' for " + places + " places: " + e.getMessage(), e);
    }
    names.headBytes = headBytes();
    names.headChecksum = headChecksum(names.headBytes);
    names.write(namesFile, true);
  }

  private int headBytes() throws IOException {
    try (FileChannel rows = FileChannel.open(file, StandardOpenOption.READ)) {
      ByteBuffer length = ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN);
      int _ = rows.read(length, HEAD_LENGTH_OFFSET);
      int bytes = HEAD_TEXT_OFFSET + length.getInt(0);
      if (bytes <= HEAD_TEXT_OFFSET || bytes > HEAD_BYTES_MAX) {
        throw new IOException(
            "ledger in '"
                + directory
                + "': the head of a new Chronicle map has "
                + bytes
                + " bytes; expected at most "
                + HEAD_BYTES_MAX);
      }
      return bytes;
    }
  }

  private int headChecksum(int bytes) throws IOException {
    ByteBuffer head = ByteBuffer.allocate(bytes);
    try (FileChannel rows = FileChannel.open(file, StandardOpenOption.READ)) {
      while (head.hasRemaining() && rows.read(head, head.position()) > 0) {
        // A file that is cut off has another checksum.
      }
    }
    CRC32C crc = new CRC32C();
    crc.update(head.flip());
    return (int) crc.getValue();
  }

  /** Chronicle would wait most of a minute for another process to mend what is rubbish. */
  private boolean isHeadIntact() throws IOException {
    if (names.headBytes == 0) {
      // A process was killed while it made the file: there was never a row in it.
      return false;
    }
    if (headChecksum(names.headBytes) == names.headChecksum) {
      return true;
    }
    openingReport =
        LedgerFiles.report(
            directory, "its head was changed", LedgerFiles.moveAside(directory, name));
    return false;
  }

  /** Whether the rows that are there can be of use. */
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
    // Values of one size: annotations are not kept.
    row.encodePlain(place, entry);
    opened().put(place, row);
  }

  @Override
  public void forget(long place) {
    opened().remove(place);
  }

  @Override
  public void clear() {
    opened().clear();
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

  /** Also drops the rows that don't verify. */
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
    return file.toFile().length() + namesFile.toFile().length();
  }

  /** How many slips in its structure were repaired at the opening: a kill in a write leaves one. */
  public long repairs() {
    return repairs;
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
    map.close();
    map = null;
    try {
      Files.createFile(cleanFile);
    } catch (IOException e) {
      throw new UncheckedIOException("ledger in '" + directory + "' can't be closed in order", e);
    } finally {
      closeFiles();
    }
  }

  private void closeFiles() {
    if (map != null) {
      map.close();
      map = null;
    }
    try {
      lock.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
