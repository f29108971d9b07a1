package io.kvtier.tiers.gpu;

import io.kvtier.layout.RunGrid;
import io.kvtier.layout.Runs;

/** Lists of runs for tests. */
final class RunLists {
  private RunLists() {}

  /** The runs of a list one by one, without grids. */
  static Runs expanded(Runs runs) {
    Runs all = new Runs();
    for (int entry = 0; entry < runs.entries(); entry++) {
      RunGrid grid = runs.grid(entry);
      if (grid == null) {
        all.addSeparate(runs.deviceAddress(entry), runs.hostAddress(entry), runs.bytes(entry));
        continue;
      }
      for (int run = 0; run < grid.runs(); run++) {
        all.addSeparate(
            runs.deviceAddress(entry) + grid.deviceOffset(run),
            runs.hostAddress(entry) + grid.hostOffset(run),
            grid.runBytes());
      }
    }
    return all;
  }
}
