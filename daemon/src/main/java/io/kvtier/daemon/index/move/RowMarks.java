package io.kvtier.daemon.index.move;

/**
 * A moment in the life of the SSD tier's directories: reached when a later start of the daemon
 * would find nothing of what had gone by then.
 */
public final class RowMarks {
  private final SsdLanes lanes;
  private final long[] marks;

  /** Now. */
  RowMarks(SsdLanes lanes) {
    this.lanes = lanes;
    marks = new long[lanes.count()];
    for (int i = 0; i < marks.length; i++) {
      marks[i] = lanes.at(i).rowsQueued();
    }
  }

  public boolean areReached() {
    for (int i = 0; i < marks.length; i++) {
      if (lanes.at(i).rowsForgotten() < marks[i]) {
        return false;
      }
    }
    return true;
  }
}
