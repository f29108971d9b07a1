package io.kvtier.daemon.index.core;

import io.kvtier.tiers.ledger.CellChains;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * What clients want kept with blocks: up to 2048 bytes a block, opaque here, in a fixed amount of
 * memory for all of them. A block whose annotation finds no room has none. Part of the directory,
 * and confined to the index like it.
 *
 * <pre>
 *   heads: for each record of the directory: u32 handle of its run | u32 bytes of it
 * </pre>
 */
public final class AnnotationTable {
  private static final int HEAD_BYTES = 8;
  private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;

  private final MemorySegment heads;
  private final CellChains chains;
  private final long metadataBytes;

  /**
   * An empty table.
   *
   * @param heads zeros, {@link #headBytes} of the directory's records
   * @param cells for the annotations
   */
  AnnotationTable(MemorySegment heads, MemorySegment cells) {
    this.heads = heads;
    chains = new CellChains(cells);
    metadataBytes = heads.byteSize() + cells.byteSize();
  }

  static long headBytes(int blocksMax) {
    return (long) blocksMax * HEAD_BYTES;
  }

  private static long at(int block) {
    return (long) block * HEAD_BYTES;
  }

  /** How many bytes a block's annotation has; 0 for none. */
  public int bytes(int block) {
    return heads.get(INT, at(block) + 4);
  }

  /**
   * Keeps a block's annotation, in place of the one that it had.
   *
   * @return false where there is no room: it has none then
   */
  public boolean set(int block, MemorySegment source, long offset, int count) {
    drop(block);
    if (count == 0) {
      return true;
    }
    int handle = chains.store(source, offset, count);
    if (handle == CellChains.NONE) {
      return false;
    }
    heads.set(INT, at(block), handle);
    heads.set(INT, at(block) + 4, count);
    return true;
  }

  /** Copies a block's annotation to the begin of an array that is long enough. */
  public void copy(int block, byte[] target) {
    int count = bytes(block);
    if (count > 0 && !chains.load(heads.get(INT, at(block)), target, count)) {
      throw new IllegalStateException("the annotation of block " + block + " is broken");
    }
  }

  /** A block has no annotation any more. */
  void drop(int block) {
    int handle = heads.get(INT, at(block));
    if (handle != CellChains.NONE) {
      chains.free(handle);
      heads.set(INT, at(block), CellChains.NONE);
      heads.set(INT, at(block) + 4, 0);
    }
  }

  /** Memory of the table when it is full, in bytes. */
  long metadataBytes() {
    return metadataBytes;
  }

  /** The memory that annotations take. */
  public long bytesUsed() {
    return chains.bytesUsed();
  }
}
