package io.kvtier.tiers.ledger;

import io.kvtier.protocol.linux.Words;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.BitSet;

/**
 * Short runs of bytes in a fixed amount of memory: each in cells of {@value #CELL_BYTES} bytes that
 * name their next, so that runs of any length fill it to the last cell. Which cells are taken is
 * known here alone; who opens memory that outlived its writer {@link #claim}s the runs it still
 * knows of. For one thread.
 *
 * <pre>
 *   cell: u32 handle of the next cell, 0 in the last | 60 bytes
 * </pre>
 */
public final class CellChains {
  /** The bytes of a cell. */
  public static final int CELL_BYTES = 64;

  /** The handle of no run. */
  public static final int NONE = 0;

  private static final int NEXT_BYTES = 4;
  private static final int PAYLOAD_BYTES = CELL_BYTES - NEXT_BYTES;

  private final MemorySegment memory;
  private final int cells;
  private final BitSet taken = new BitSet();
  private int cursor;
  private int used;

  /** All of the memory's whole cells, none of them taken. */
  public CellChains(MemorySegment memory) {
    this.memory = memory;
    cells = Math.toIntExact(memory.byteSize() / CELL_BYTES);
  }

  private static int cellsOf(int count) {
    return (count + PAYLOAD_BYTES - 1) / PAYLOAD_BYTES;
  }

  /** The memory that is taken. */
  public long bytesUsed() {
    return (long) used * CELL_BYTES;
  }

  /**
   * Keeps bytes.
   *
   * @param count at least 1
   * @return the run's handle, or {@link #NONE} where there is no room
   */
  public int store(MemorySegment source, long offset, int count) {
    if (cellsOf(count) > cells - used) {
      return NONE;
    }
    int first = NONE;
    long before = -1;
    int left = count;
    while (left > 0) {
      int cell = take();
      long at = (long) cell * CELL_BYTES;
      if (before < 0) {
        first = cell + 1;
      } else {
        Words.putInt(memory, before, cell + 1);
      }
      int part = Math.min(left, PAYLOAD_BYTES);
      MemorySegment.copy(source, offset + count - left, memory, at + NEXT_BYTES, part);
      left -= part;
      before = at;
    }
    Words.putInt(memory, before, NONE);
    return first;
  }

  private int take() {
    int cell = taken.nextClearBit(cursor);
    if (cell >= cells) {
      cell = taken.nextClearBit(0);
    }
    taken.set(cell);
    cursor = cell + 1;
    used++;
    return cell;
  }

  /**
   * Reads a run.
   *
   * @return false where it leads out of the memory, or ends too early: there is none
   */
  public boolean load(int handle, byte[] target, int count) {
    int next = handle;
    for (int done = 0; done < count; done += PAYLOAD_BYTES) {
      if (next <= 0 || next > cells) {
        return false;
      }
      long at = (long) (next - 1) * CELL_BYTES;
      int part = Math.min(count - done, PAYLOAD_BYTES);
      MemorySegment.copy(memory, ValueLayout.JAVA_BYTE, at + NEXT_BYTES, target, done, part);
      next = Words.getInt(memory, at);
    }
    return next == NONE;
  }

  /** Takes the cells of a run that {@link #load} has read; false where one of them is another's. */
  public boolean claim(int handle) {
    for (int next = handle; next != NONE; next = following(next)) {
      if (taken.get(next - 1)) {
        release(handle, next);
        return false;
      }
      taken.set(next - 1);
      used++;
    }
    return true;
  }

  /** Gives the cells of a run back. */
  public void free(int handle) {
    release(handle, NONE);
  }

  private void release(int handle, int end) {
    for (int next = handle; next != end; next = following(next)) {
      taken.clear(next - 1);
      used--;
    }
  }

  private int following(int handle) {
    return Words.getInt(memory, (long) (handle - 1) * CELL_BYTES);
  }
}
