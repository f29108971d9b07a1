package io.kvtier.daemon.index;

/**
 * A moment in the life of the SSD tier's directories: reached when a later start of the daemon
 * would find nothing of what had gone by then.
 */
final class RowMarks {
  private final SsdLane[] lanes;
  private final long[] marks;

  /** Now. */
  RowMarks(SsdLane[] lanes) {
    this.lanes = lanes;
    marks = new long[lanes.length];
    for (int i = 0; i < marks.length; i++) {
      marks[i] = lanes[i].rowsQueued();
    }
  }

  boolean areReached() {
    for (int i = 0; i < marks.length; i++) {
      if (lanes[i].rowsForgotten() < marks[i]) {
        return false;
      }
    }
    return true;
  }
}
