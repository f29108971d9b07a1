package io.kvtier.tiers.ledger;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.zip.CRC32C;
import net.openhft.chronicle.map.ChronicleMap;
import net.openhft.chronicle.map.ChronicleMapBuilder;

/**
 * The annotations of a {@link ChronicleLedger}, in a Chronicle map of their own, by place. The
 * checksum of an annotation covers the annotation and the checksum of its row. An annotation that
 * is damaged, or that belongs to an earlier row, is ignored, and the row is kept. If the map is
 * full, an annotation is left out.
 *
 * <p>Files: {@code NAME.annotations-BYTES}, whose space is taken at the start, and {@code
 * NAME.annotations-BYTES.head}, which has the length and the checksum of the map's head. A file of
 * another size, or a damaged file, is deleted.
 */
final class ChronicleAnnotations implements AutoCloseable {
  /** Chronicle gives an entry up to 64 chunks. */
  private static final int CHUNK_BYTES = 64;

  /**
   * The usual size of an entry: an annotation, its place, its checksum, and Chronicle's own data.
   */
  private static final int ENTRY_BYTES = 192;

  private static final int VALUE_BYTES = 128;
  private static final int ENTRIES_MIN = 1024;

  private final Path file;
  private final ChronicleMap<Long, Annotation> map;
  private final Annotation value = new Annotation();
  private final CRC32C crc = new CRC32C();
  private final ByteBuffer rowChecksum = ByteBuffer.allocate(Integer.BYTES);

  /** Whether there was an annotation. Most ledgers have none, and then the map is not searched. */
  private boolean isUsed;

  /** One annotation and its checksum. */
  static final class Annotation {
    final byte[] bytes = new byte[LedgerEntry.ANNOTATION_BYTES_MAX];
    int count;
    int checksum;
  }

  /**
   * Opens or makes the file.
   *
   * @param name of the ledger's files
   * @param space in bytes
   * @param isClean whether the last process closed it in order
   */
  ChronicleAnnotations(Path directory, String name, long space, boolean isClean)
      throws IOException {
    String prefix = name + ".annotations-";
    file = directory.resolve(prefix + space);
    Path headFile = directory.resolve(file.getFileName() + ".head");
    try (DirectoryStream<Path> all = Files.newDirectoryStream(directory, prefix + "*")) {
      for (Path other : all) {
        if (!other.equals(file) && !other.equals(headFile)) {
          Files.delete(other);
        }
      }
    }
    ChronicleMap<Long, Annotation> opened = null;
    if (isHeadIntact(headFile)) {
      try {
        opened = ChronicleMaps.open(builder(space), file, isClean);
      } catch (IOException | RuntimeException e) {
        // A new map replaces this one: routers are told less, and no block is lost.
      }
    }
    map = opened == null ? make(space, headFile) : opened;
    isUsed = !map.isEmpty();
  }

  private boolean isHeadIntact(Path headFile) throws IOException {
    if (!Files.exists(file) || !Files.exists(headFile)) {
      return false;
    }
    ByteBuffer head = ByteBuffer.wrap(Files.readAllBytes(headFile));
    return head.limit() == 2 * Integer.BYTES
        && ChronicleHead.isIntact(file, head.getInt(0), head.getInt(Integer.BYTES));
  }

  private ChronicleMap<Long, Annotation> make(long space, Path headFile) throws IOException {
    Files.deleteIfExists(headFile);
    Files.deleteIfExists(file);
    ChronicleMap<Long, Annotation> made =
        ChronicleMaps.make(builder(space), file, "annotations", "limits.annotation_bytes");
    try {
      int bytes = ChronicleHead.bytes(file);
      Files.write(
          headFile,
          ByteBuffer.allocate(2 * Integer.BYTES)
              .putInt(bytes)
              .putInt(ChronicleHead.checksum(file, bytes))
              .array());
    } catch (IOException e) {
      made.close();
      throw e;
    }
    return made;
  }

  private static ChronicleMapBuilder<Long, Annotation> builder(long space) {
    return ChronicleMapBuilder.of(Long.class, Annotation.class)
        .name("kvtier-annotations")
        .entries(Math.max(ENTRIES_MIN, space / ENTRY_BYTES))
        .averageValueSize(VALUE_BYTES)
        .actualChunkSize(CHUNK_BYTES)
        .valueMarshallers(AnnotationMarshaller.INSTANCE, AnnotationMarshaller.INSTANCE)
        .allowSegmentTiering(false)
        .checksumEntries(false)
        .putReturnsNull(true)
        .removeReturnsNull(true);
  }

  private int checksum(int ofRow, byte[] bytes, int count) {
    crc.reset();
    crc.update(rowChecksum.putInt(0, ofRow).rewind());
    crc.update(bytes, 0, count);
    return (int) crc.getValue();
  }

  /** Replaces the annotation of a place by the one of its new row, which may have none. */
  void record(long place, int ofRow, LedgerEntry entry) {
    if (entry.annotationBytes == 0) {
      forget(place);
      return;
    }
    isUsed = true;
    System.arraycopy(entry.annotation, 0, value.bytes, 0, entry.annotationBytes);
    value.count = entry.annotationBytes;
    value.checksum = checksum(ofRow, value.bytes, value.count);
    try {
      map.put(place, value);
    } catch (IllegalStateException | IllegalArgumentException e) {
      // There is no space left.
      map.remove(place);
    }
  }

  /** Drops the annotation of a place. */
  void forget(long place) {
    if (isUsed) {
      map.remove(place);
    }
  }

  /** Adds the annotation of a row to its entry. */
  void load(long place, int ofRow, LedgerEntry entry) {
    entry.annotate(0);
    if (isUsed
        && map.getUsing(place, value) != null
        && value.count > 0
        && value.checksum == checksum(ofRow, value.bytes, value.count)) {
      entry.setAnnotation(value.bytes, value.count);
    }
  }

  void clear() {
    map.clear();
  }

  long bytes() {
    return file.toFile().length();
  }

  @Override
  public void close() {
    map.close();
  }
}
