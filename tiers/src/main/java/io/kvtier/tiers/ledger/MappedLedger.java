package io.kvtier.tiers.ledger;

import io.kvtier.protocol.linux.Words;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/**
 * A ledger in memory that outlives the process with the tier that it tells of: each slot's row
 * stands at a place of its own, so a row costs a checksum and a copy, and opening costs a scan. A
 * row counts when its call returns, whole or not at all, as its checksum tells; so {@link #commit}
 * has only the namespaces and the layout to write. Never against the loss of power.
 *
 * <pre>
 *   names A | names B | for each region: u32 bytes of its slots | for each region: its rows
 *     | for each row: u32 handle of its annotation | the annotations, in {@link CellChains}
 *
 *   names: u64 which of the two is newer, 0 when there are none
 *          u32 length   u32 zero   as {@link LedgerNames} has them
 * </pre>
 *
 * <p>The rows of a region stand close together, whatever the size of its slots; memory is taken by
 * those that were ever used. Where there is no room for annotations, there are neither handles nor
 * chains, and rows are kept without.
 */
public final class MappedLedger extends NamedLedger {
  private static final long NAMES_BYTES = 4 << 20;
  private static final int NAMES_HEADER_BYTES = 16;
  private static final int HANDLE_BYTES = 4;
  private static final int PAGE = 4096;

  private final MemorySegment memory;
  private final int regions;
  private final long regionBytes;
  private final long rowsPerRegion;
  private final long slotBytesAt;
  private final long rowsAt;
  private final long handlesAt;
  private final @Nullable CellChains annotations;
  private final LedgerRow row = new LedgerRow();
  private final LedgerEntry probe = new LedgerEntry();
  private long namesSequence;

  /**
   * Opens what is in the memory; memory full of zeros is an empty ledger.
   *
   * @param memory {@link #bytesFor} of the same tier
   * @param regionBytes a multiple of 4 KiB; slots are multiples of 4 KiB, too
   * @param annotationBytes room for annotations; 0: none are kept
   */
  public MappedLedger(MemorySegment memory, int regions, long regionBytes, long annotationBytes) {
    if (memory.byteSize() < bytesFor(regions, regionBytes, annotationBytes)) {
      throw new IllegalArgumentException(
          memory.byteSize()
              + " bytes are too few for the rows of "
              + regions
              + " regions: expected "
              + bytesFor(regions, regionBytes, annotationBytes));
    }
    this.memory = memory;
    this.regions = regions;
    this.regionBytes = regionBytes;
    rowsPerRegion = regionBytes / PAGE;
    slotBytesAt = 2 * NAMES_BYTES;
    rowsAt = slotBytesAt + padded(4L * regions);
    handlesAt = rowsAt + padded(regions * rowsPerRegion * LedgerEntryDescriptor.ROW_BYTES);
    long chainsAt = handlesAt + padded(regions * rowsPerRegion * HANDLE_BYTES);
    annotations =
        annotationBytes == 0 ? null : new CellChains(memory.asSlice(chainsAt, annotationBytes));
    readNames();
    claimAnnotations();
  }

  /** How much memory the ledger of a tier needs; most of it is never touched. */
  public static long bytesFor(int regions, long regionBytes, long annotationBytes) {
    long rows = regions * (regionBytes / PAGE);
    return 2 * NAMES_BYTES
        + padded(4L * regions)
        + padded(rows * LedgerEntryDescriptor.ROW_BYTES)
        + (annotationBytes == 0 ? 0 : padded(rows * HANDLE_BYTES) + padded(annotationBytes));
  }

  private static long padded(long bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
  }

  private void readNames() {
    for (int copy = 0; copy < 2; copy++) {
      long at = copy * NAMES_BYTES;
      long sequence = Words.getLong(memory, at);
      int length = Words.getInt(memory, at + 8);
      if (sequence <= namesSequence || length < 0 || length > NAMES_BYTES - NAMES_HEADER_BYTES) {
        continue;
      }
      byte[] bytes = new byte[length];
      MemorySegment.copy(memory, ValueLayout.JAVA_BYTE, at + NAMES_HEADER_BYTES, bytes, 0, length);
      try {
        names = LedgerNames.of(bytes, "the memory of the ledger");
        namesSequence = sequence;
      } catch (IOException e) {
        openingReport = "a copy of the namespaces was cut off; the other one is used";
      }
    }
  }

  // ---- rows

  private long rowAt(int region, long slot) {
    return rowsAt + (region * rowsPerRegion + slot) * LedgerEntryDescriptor.ROW_BYTES;
  }

  private long handleAt(int region, long slot) {
    return handlesAt + (region * rowsPerRegion + slot) * HANDLE_BYTES;
  }

  /** Finds out which of the cells are taken: that stands nowhere but in the rows. */
  private void claimAnnotations() {
    if (annotations != null) {
      forEachRow((region, slot, place) -> {
        int handle = Words.getInt(memory, handleAt(region, slot));
        boolean stands = read(region, slot, place);
        if (!stands || probe.annotationBytes == 0) {
          Words.putInt(memory, handleAt(region, slot), CellChains.NONE);
          if (stands && Words.getLong(memory, rowAt(region, slot)) != row.getLong(0)) {
            Words.putLong(memory, rowAt(region, slot), row.getLong(0));
          }
        } else if (!annotations.claim(handle)) {
          // Two rows can't have it: this one is what is left of an interrupted change.
          Words.putInt(memory, handleAt(region, slot), CellChains.NONE);
          Words.putByte(memory, rowAt(region, slot) + LedgerEntryDescriptor.VERSION_OFFSET, 0);
        }
      });
    }
  }

  /** Keeps the entry's annotation, if there is room; the row is encoded accordingly. */
  private void encode(long place, LedgerEntry entry, long handleAt) {
    if (annotations == null) {
      row.encodePlain(place, entry);
      return;
    }
    dropAnnotation(handleAt);
    int count = entry.annotationBytes;
    int handle =
        count == 0
            ? CellChains.NONE
            : annotations.store(MemorySegment.ofArray(entry.annotation), 0, count);
    Words.putInt(memory, handleAt, handle);
    if (handle == CellChains.NONE) {
      row.encodePlain(place, entry);
    } else {
      row.encode(place, entry);
    }
  }

  private void dropAnnotation(long handleAt) {
    int handle = annotations == null ? CellChains.NONE : Words.getInt(memory, handleAt);
    if (handle != CellChains.NONE && annotations != null) {
      annotations.free(handle);
      Words.putInt(memory, handleAt, CellChains.NONE);
    }
  }

  private int slotBytes(int region) {
    return Words.getInt(memory, slotBytesAt + 4L * region);
  }

  private void requirePlace(long place) {
    int region = Transfer.regionOf(place);
    if (region < 0 || region >= regions || Transfer.offsetOf(place) >= regionBytes) {
      throw new IllegalArgumentException(
          "there is no place " + Long.toHexString(place) + " in a tier of " + regions + " regions");
    }
  }

  @Override
  public void record(long place, LedgerEntry entry) {
    requirePlace(place);
    int region = Transfer.regionOf(place);
    int slotBytes = (int) padded(Math.max(1, entry.length));
    if (slotBytes(region) != slotBytes) {
      // The region was given to another size: no row of the old one is left.
      Words.putInt(memory, slotBytesAt + 4L * region, slotBytes);
    }
    long slot = Transfer.offsetOf(place) / slotBytes;
    long at = rowAt(region, slot);
    if (annotations != null && entry.annotationBytes > 0 && standsPlain(place, entry, at)) {
      annotate(place, entry, handleAt(region, slot), at);
      return;
    }
    // What stood there is over before its annotation is.
    Words.putByte(memory, at + LedgerEntryDescriptor.VERSION_OFFSET, 0);
    encode(place, entry, handleAt(region, slot));
    MemorySegment.copy(
        row.bytes, 0, memory, ValueLayout.JAVA_BYTE, at, LedgerEntryDescriptor.ROW_BYTES);
  }

  /** Whether the row is there, and lacks the annotation alone. */
  private boolean standsPlain(long place, LedgerEntry entry, long at) {
    row.encodePlain(place, entry);
    return MemorySegment.mismatch(
            MemorySegment.ofArray(row.bytes),
            0,
            row.bytes.length,
            memory,
            at,
            at + row.bytes.length)
        == -1;
  }

  /**
   * Gives a row that stands its annotation, so that a kill at any instruction leaves it with or
   * without: what of the row changes is in its first word and in its last, and where only the first
   * was written, the last still is the checksum of the row without ({@link #read}).
   */
  private void annotate(long place, LedgerEntry entry, long handleAt, long at) {
    encode(place, entry, handleAt);
    Words.putLongRelease(memory, at, row.getLong(0));
    Words.putIntRelease(
        memory,
        at + LedgerEntryDescriptor.ROW_CHECKSUM_OFFSET,
        row.getInt(LedgerEntryDescriptor.ROW_CHECKSUM_OFFSET));
  }

  @Override
  public void forget(long place) {
    requirePlace(place);
    int region = Transfer.regionOf(place);
    int slotBytes = slotBytes(region);
    if (slotBytes <= 0) {
      return;
    }
    long slot = Transfer.offsetOf(place) / slotBytes;
    long at = rowAt(region, slot);
    if (Words.getInt(memory, at + LedgerEntryDescriptor.PLACE_LOW_OFFSET) == (int) place) {
      Words.putByte(memory, at + LedgerEntryDescriptor.VERSION_OFFSET, 0);
      dropAnnotation(handleAt(region, slot));
    }
  }

  /** Is shown the rows that are not empty. */
  private interface RowVisitor {
    void visit(int region, long slot, long place);
  }

  /** Reads a row into the probe; false where it does not verify. */
  private boolean read(int region, long slot, long place) {
    MemorySegment.copy(
        memory,
        ValueLayout.JAVA_BYTE,
        rowAt(region, slot),
        row.bytes,
        0,
        LedgerEntryDescriptor.ROW_BYTES);
    int annotationBytes = Math.min(row.annotationBytes(), LedgerEntry.ANNOTATION_BYTES_MAX);
    probe.annotate(annotationBytes);
    if (annotationBytes > 0) {
      if (loadAnnotation(region, slot, annotationBytes) && row.decode(place, probe)) {
        return true;
      }
      // Killed while it got its annotation: it stands without.
      row.takeAnnotationBack();
      probe.annotate(0);
    }
    return row.decode(place, probe);
  }

  private boolean loadAnnotation(int region, long slot, int annotationBytes) {
    return annotations != null
        && annotations.load(
            Words.getInt(memory, handleAt(region, slot)), probe.annotation, annotationBytes);
  }

  @Override
  public void forEach(EntryVisitor visitor) {
    requireCommitted();
    forEachRow((region, slot, place) -> {
      if (read(region, slot, place)) {
        visitor.visit(place, probe);
      } else {
        damagedRows++;
      }
    });
  }

  private void forEachRow(RowVisitor visitor) {
    for (int region = 0; region < regions; region++) {
      int slotBytes = slotBytes(region);
      long slots = slotBytes <= 0 ? 0 : regionBytes / slotBytes;
      for (long slot = 0; slot < slots; slot++) {
        long at = rowAt(region, slot);
        if (Words.getByte(memory, at + LedgerEntryDescriptor.VERSION_OFFSET) != 0) {
          visitor.visit(region, slot, Transfer.place(region, slot * slotBytes));
        }
      }
    }
  }

  // ---- names

  @Override
  public void clear() {
    for (int region = 0; region < regions; region++) {
      int slotBytes = slotBytes(region);
      for (long slot = 0; slotBytes > 0 && slot < regionBytes / slotBytes; slot++) {
        Words.putByte(memory, rowAt(region, slot) + LedgerEntryDescriptor.VERSION_OFFSET, 0);
        dropAnnotation(handleAt(region, slot));
      }
    }
    clearNames();
  }

  @Override
  public void commit(boolean sync) throws IOException {
    if (!namesChanged) {
      return;
    }
    byte[] bytes = names.bytes();
    if (bytes.length > NAMES_BYTES - NAMES_HEADER_BYTES) {
      throw new IOException(
          "the namespaces' properties take "
              + bytes.length
              + " bytes, expected at most "
              + (NAMES_BYTES - NAMES_HEADER_BYTES));
    }
    long at = (namesSequence + 1) % 2 * NAMES_BYTES;
    // A process that ends in between leaves the other copy.
    Words.putLongRelease(memory, at, 0);
    Words.putInt(memory, at + 8, bytes.length);
    MemorySegment.copy(
        bytes, 0, memory, ValueLayout.JAVA_BYTE, at + NAMES_HEADER_BYTES, bytes.length);
    Words.putLongRelease(memory, at, ++namesSequence);
    namesChanged = false;
  }

  @Override
  public void forEachNamespace(NamespaceVisitor visitor) {
    requireCommitted();
    super.forEachNamespace(visitor);
  }

  private void requireCommitted() {
    if (namesChanged) {
      throw new IllegalStateException("the namespaces are not committed: commit first");
    }
  }

  // ---- reports

  @Override
  public long bytes() {
    return memory.byteSize();
  }

  /** The memory is its owner's. */
  @Override
  public void close() {}
}
