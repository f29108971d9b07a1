package io.kvtier.daemon.index.lane;

import java.util.ArrayList;
import java.util.List;

/**
 * A moment in the life of the lower tiers' ledgers: reached when a later start of the daemon would
 * find nothing of what had gone by then.
 */
public final class RowMarks {
  /** How many rows of a device were ever to go. */
  private record Mark(Lane lane, long rows) {}

  private final List<Mark> marks = new ArrayList<>();

  /** Now. */
  public RowMarks(List<Lanes> tiers) {
    for (Lanes lanes : tiers) {
      for (int i = 0; i < lanes.count(); i++) {
        marks.add(new Mark(lanes.at(i), lanes.at(i).rowsQueued()));
      }
    }
  }

  public boolean areReached() {
    for (Mark mark : marks) {
      if (mark.lane.rowsForgotten() < mark.rows) {
        return false;
      }
    }
    return true;
  }
}
