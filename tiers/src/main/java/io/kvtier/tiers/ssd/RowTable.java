package io.kvtier.tiers.ssd;

import java.io.IOException;
import java.util.function.IntConsumer;

/**
 * Where rows of whole pages stand in the regions of a {@link RocksDevice}, and how much they are
 * together. Rows never overlap. Two bytes for each page there is. Safe for several threads.
 */
final class RowTable {
  static final int PAGE_BYTES = 4096;

  private final int units;
  private final int regionPages;

  /** By region and first page, how many pages; a region's is null until it has a row. */
  private final char[][] rows;

  private final long[] unitBytes;

  /**
   * No rows.
   *
   * @param units the parts that are summed up; region N is of part N modulo this
   */
  RowTable(int regions, long regionBytes, int units) {
    this.units = units;
    regionPages = Math.toIntExact(regionBytes / PAGE_BYTES);
    rows = new char[regions][];
    unitBytes = new long[units];
  }

  /** Whether a row there would be inside of a region there is. */
  boolean fits(int region, int page, int pages) {
    return region >= 0
        && region < rows.length
        && page >= 0
        && pages > 0
        && pages <= Character.MAX_VALUE
        && (long) page + pages <= regionPages;
  }

  /**
   * Refuses a row that has no place.
   *
   * @throws IOException naming it
   */
  void require(int region, int page, int pages) throws IOException {
    if (!fits(region, page, pages)) {
      throw new IOException(
          pages
              + " pages at page "
              + page
              + " of region "
              + region
              + "; there are "
              + rows.length
              + " regions of "
              + regionPages
              + " pages, and rows of at most "
              + (int) Character.MAX_VALUE);
    }
  }

  /** How many pages the row has that begins there; 0: none does. */
  synchronized int pages(int region, int page) {
    char[] there = rows[region];
    return there == null ? 0 : there[page];
  }

  /** Notes a row, in the place of the one that began there. */
  synchronized void set(int region, int page, int pages) {
    if (rows[region] == null) {
      rows[region] = new char[regionPages];
    }
    char[] there = rows[region];
    unitBytes[region % units] += (long) (pages - there[page]) * PAGE_BYTES;
    there[page] = (char) pages;
  }

  /** Removes the rows that a new one would overlap, but for one that begins where it does. */
  synchronized void removeOverlapped(int region, int page, int pages, IntConsumer removed) {
    char[] there = rows[region];
    if (there == null) {
      return;
    }
    for (int before = page - 1; before >= 0; before--) {
      if (there[before] != 0) {
        if (before + there[before] > page) {
          set(region, before, 0);
          removed.accept(before);
        }
        break;
      }
    }
    for (int inside = page + 1; inside < page + pages; inside++) {
      if (there[inside] != 0) {
        set(region, inside, 0);
        removed.accept(inside);
      }
    }
  }

  /** Removes all rows of a part. */
  synchronized void clear(int unit) {
    for (int region = unit; region < rows.length; region += units) {
      rows[region] = null;
    }
    unitBytes[unit] = 0;
  }

  /** How many rows there are. */
  synchronized long count() {
    long count = 0;
    for (char[] region : rows) {
      for (int page = 0; region != null && page < region.length; page++) {
        count += region[page] == 0 ? 0 : 1;
      }
    }
    return count;
  }

  /** What all rows of a part are together. */
  synchronized long bytes(int unit) {
    return unitBytes[unit];
  }
}
