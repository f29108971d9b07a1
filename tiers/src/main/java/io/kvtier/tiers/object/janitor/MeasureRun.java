package io.kvtier.tiers.object.janitor;

import io.kvtier.tiers.object.StoredObject;

/** Counts what is there, by namespace. */
final class MeasureRun implements JanitorRun {
  @Override
  public void run(JanitorCalls calls, Tally tally) throws RunEnd {
    BlockWalk.walk(
        calls,
        "",
        tally,
        blocks -> {
          for (StoredObject block : blocks) {
            String name = block.name();
            tally.addToNamespace(name.substring(0, name.indexOf('/')), block.bytes());
            tally.add(JanitorCount.LEFT, 1, block.bytes());
          }
        });
  }
}
