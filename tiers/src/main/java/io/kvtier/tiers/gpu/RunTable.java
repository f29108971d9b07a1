package io.kvtier.tiers.gpu;

import io.kvtier.layout.RunGrid;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/**
 * What the kernels read, in host memory that the device sees: forms first, then entries. The
 * kernels' source, {@code run_table.cuh}, declares both, too.
 *
 * <pre>
 *   form    0                   24                  48         52         56         60         64
 *           | 3 source strides  | 3 target strides  | runBytes | 2 counts            | alignment |
 *   entry   0          8          16     20     24      28       32
 *           | source   | target   | form | from | bytes | place  |
 * </pre>
 *
 * <p>A form is a grid: runs of equal length in three dimensions, the inner one first. The bytes of
 * all runs of a grid have numbers, run by run. An entry copies the bytes from {@code from} on. Its
 * addresses are those of the first run, even where it leaves out the first bytes. The outer count
 * is in no form, because an entry says how many bytes it copies. An entry with the form {@link
 * #ONE_RUN} is contiguous on both sides. Kernels that say something of blocks know them by the
 * places of their entries.
 */
public final class RunTable {
  /** A warp copies so many bytes before it takes the next piece; as in the kernel. */
  public static final int PIECE_BYTES = 4096;

  /** The most forms of a table; as in the kernel. */
  static final int FORMS_MAX = 8;

  /** Threads of a block, and so its warps, each with a piece at a time. */
  static final int BLOCK_THREADS = 512;

  private static final int BLOCK_PIECES = BLOCK_THREADS / 32;

  /** The form of an entry that is contiguous on both sides. */
  private static final int ONE_RUN = -1;

  private static final int DIMENSIONS = RunGrid.DIMENSIONS;

  static final int FORM_BYTES = 64;
  private static final int SOURCE_STRIDES = 0;
  private static final int TARGET_STRIDES = 24;
  private static final int RUN_BYTES = 48;
  private static final int COUNTS = 52;
  private static final int FORM_ALIGNMENT = 60;

  private static final int ENTRIES = FORMS_MAX * FORM_BYTES;
  static final int ENTRY_BYTES = 32;
  private static final int SOURCE = 0;
  private static final int TARGET = 8;
  private static final int FORM = 16;
  private static final int FROM = 20;
  private static final int BYTES = 24;
  private static final int PLACE = 28;

  /** The memories between which a table copies. */
  enum Sides {
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    /** The target is staging memory, in which the runs of a grid lie side by side. */
    DEVICE_TO_STAGING,
    /** The source is staging memory, in which the runs of a grid lie side by side. */
    STAGING_TO_DEVICE;

    boolean isFromDevice() {
      return this == DEVICE_TO_HOST || this == DEVICE_TO_STAGING;
    }

    boolean isStaged() {
      return this == DEVICE_TO_STAGING || this == STAGING_TO_DEVICE;
    }
  }

  private final MemorySegment memory;
  private final long address;
  private final int entriesMax;
  private final @Nullable RunGrid[] forms = new RunGrid[FORMS_MAX];
  private Sides sides = Sides.DEVICE_TO_HOST;
  private int formCount;
  private int count;
  private int longest;

  /**
   * An empty table.
   *
   * @param memory as much as {@link #bytes} says, at a multiple of 32 bytes
   * @param address where the device sees the memory
   */
  RunTable(MemorySegment memory, long address, int entriesMax) {
    this.memory = memory;
    this.address = address;
    this.entriesMax = entriesMax;
  }

  /** The memory of a table with so many entries. */
  public static long bytes(int entriesMax) {
    return ENTRIES + (long) entriesMax * ENTRY_BYTES;
  }

  /** Removes all entries. */
  void begin(Sides which) {
    sides = which;
    formCount = 0;
    count = 0;
    longest = 0;
  }

  /** Where the device sees the table. */
  long address() {
    return address;
  }

  /** How many forms there are. */
  int forms() {
    return formCount;
  }

  /** How many entries there are. */
  int count() {
    return count;
  }

  /** Into how many pieces of a length the longest entry is cut. */
  int pieces(int pieceBytes) {
    return (longest + pieceBytes - 1) / pieceBytes;
  }

  /** How many thread blocks have something to do, when a warp takes pieces of a length. */
  long usefulBlocks(int pieceBytes) {
    return ((long) count * pieces(pieceBytes) + BLOCK_PIECES - 1) / BLOCK_PIECES;
  }

  /** Whether the table has no space for an entry. */
  boolean isFull(@Nullable RunGrid grid) {
    return count == entriesMax || (formCount == FORMS_MAX && grid != null && find(grid) < 0);
  }

  /**
   * Adds an entry to a table that is not full.
   *
   * @param grid null for one run
   * @param device the address of the first run on the device
   * @param other the address of the first run on the host, or in the staging memory
   * @param from the number of the first byte
   * @param bytes how many bytes of the runs are copied
   * @param place what a kernel calls the block
   */
  void add(@Nullable RunGrid grid, long device, long other, int from, int bytes, int place) {
    if (from < 0 || bytes < 1 || (grid != null && bytes > grid.bytes() - from)) {
      throw new IllegalArgumentException(
          "bytes " + from + " to " + ((long) from + bytes) + " are not all in the grid " + grid);
    }
    long at = at(count);
    memory.set(ValueLayout.JAVA_LONG, at + SOURCE, sides.isFromDevice() ? device : other);
    memory.set(ValueLayout.JAVA_LONG, at + TARGET, sides.isFromDevice() ? other : device);
    memory.set(ValueLayout.JAVA_INT, at + FORM, grid == null ? ONE_RUN : formOf(grid));
    memory.set(ValueLayout.JAVA_INT, at + FROM, from);
    memory.set(ValueLayout.JAVA_INT, at + BYTES, bytes);
    memory.set(ValueLayout.JAVA_INT, at + PLACE, place);
    count++;
    longest = Math.max(longest, bytes);
  }

  @SuppressWarnings("ReferenceEquality") // quick, before values are compared
  private int find(RunGrid grid) {
    // The grids of a region are few objects, and mostly one.
    for (int i = formCount - 1; i >= 0; i--) {
      if (forms[i] == grid) {
        return i;
      }
    }
    for (int i = formCount - 1; i >= 0; i--) {
      if (grid.equals(forms[i])) {
        return i;
      }
    }
    return -1;
  }

  private int formOf(RunGrid grid) {
    int known = find(grid);
    if (known >= 0) {
      return known;
    }
    forms[formCount] = grid;
    long at = (long) formCount * FORM_BYTES;
    long alignment = grid.runBytes();
    long packedStride = grid.runBytes();
    for (int i = 0; i < DIMENSIONS; i++) {
      RunGrid.Dimension dimension =
          switch (i) {
            case 0 -> grid.inner();
            case 1 -> grid.middle();
            default -> grid.outer();
          };
      long device = dimension.deviceStride();
      long other = sides.isStaged() ? packedStride : dimension.hostStride();
      packedStride *= dimension.count();
      long step = (long) i * Long.BYTES;
      memory.set(
          ValueLayout.JAVA_LONG, at + SOURCE_STRIDES + step, sides.isFromDevice() ? device : other);
      memory.set(
          ValueLayout.JAVA_LONG, at + TARGET_STRIDES + step, sides.isFromDevice() ? other : device);
      alignment |= device | other;
    }
    memory.set(ValueLayout.JAVA_INT, at + RUN_BYTES, grid.runBytes());
    memory.set(ValueLayout.JAVA_INT, at + COUNTS, grid.inner().count());
    memory.set(ValueLayout.JAVA_INT, at + COUNTS + Integer.BYTES, grid.middle().count());
    memory.set(ValueLayout.JAVA_INT, at + FORM_ALIGNMENT, (int) alignment);
    return formCount++;
  }

  /** Takes the runs of an entry. */
  public interface Visitor {
    /** Takes one run. */
    void visit(long source, long target, long bytes);
  }

  /**
   * Ends with an exception if an entry has a form that a kernel would not read, for a GPU without a
   * kernel.
   *
   * @param forms how many forms it would read
   */
  public static void requireForms(MemorySegment memory, int forms, int count) {
    for (int entry = 0; entry < count; entry++) {
      int form = word(memory, entry, FORM);
      if (form != ONE_RUN && form >= forms) {
        throw new IllegalStateException(
            "entry " + entry + " has form " + form + ", and the kernel reads " + forms + " forms");
      }
    }
  }

  /**
   * Visits the runs of an entry as the kernel copies them, for a GPU without a kernel.
   *
   * @param memory a table
   * @param pieces into how many pieces the longest entry is cut; what is behind is not visited
   */
  public static void visit(MemorySegment memory, int entry, int pieces, Visitor visitor) {
    long bytes = Math.min(length(memory, entry), (long) pieces * PIECE_BYTES);
    visit(memory, entry, 0, bytes, visitor);
  }

  /**
   * Visits some of the bytes of an entry.
   *
   * @param skipped how many of its bytes are before them
   */
  static void visit(MemorySegment memory, int entry, long skipped, long bytes, Visitor visitor) {
    long source = source(memory, entry);
    long target = target(memory, entry);
    int form = word(memory, entry, FORM);
    long from = word(memory, entry, FROM) + skipped;
    if (form == ONE_RUN) {
      visitor.visit(source + from, target + from, bytes);
      return;
    }
    long ofForm = (long) form * FORM_BYTES;
    int runBytes = memory.get(ValueLayout.JAVA_INT, ofForm + RUN_BYTES);
    for (long next = from; next < from + bytes; ) {
      long run = next / runBytes;
      long byteOfRun = next % runBytes;
      long length = Math.min(runBytes - byteOfRun, from + bytes - next);
      visitor.visit(
          source + offset(memory, ofForm + SOURCE_STRIDES, ofForm, run) + byteOfRun,
          target + offset(memory, ofForm + TARGET_STRIDES, ofForm, run) + byteOfRun,
          length);
      next += length;
    }
  }

  /** The source of an entry of a table. */
  static long source(MemorySegment memory, int entry) {
    return memory.get(ValueLayout.JAVA_LONG, at(entry) + SOURCE);
  }

  /** The target of an entry of a table. */
  static long target(MemorySegment memory, int entry) {
    return memory.get(ValueLayout.JAVA_LONG, at(entry) + TARGET);
  }

  /** How many bytes an entry of a table copies. */
  static int length(MemorySegment memory, int entry) {
    return word(memory, entry, BYTES);
  }

  /** What a kernel calls the block of an entry of a table. */
  static int place(MemorySegment memory, int entry) {
    return word(memory, entry, PLACE);
  }

  private static int word(MemorySegment memory, int entry, int which) {
    return memory.get(ValueLayout.JAVA_INT, at(entry) + which);
  }

  private static long at(int entry) {
    return ENTRIES + (long) entry * ENTRY_BYTES;
  }

  private static long offset(MemorySegment memory, long strides, long form, long run) {
    long inner = memory.get(ValueLayout.JAVA_INT, form + COUNTS);
    long middle = memory.get(ValueLayout.JAVA_INT, form + COUNTS + Integer.BYTES);
    long row = run / inner;
    return run % inner * memory.get(ValueLayout.JAVA_LONG, strides)
        + row % middle * memory.get(ValueLayout.JAVA_LONG, strides + Long.BYTES)
        + row / middle * memory.get(ValueLayout.JAVA_LONG, strides + 2 * Long.BYTES);
  }
}
