package io.kvtier.tiers.object.janitor;

/**
 * Deletes a namespace's blocks, and looks again, for what was written behind the first look. What
 * is written later stays: who removes a namespace first sees to it that nobody uses it.
 */
final class RemoveRun implements JanitorRun {
  private static final int PASSES_MAX = 4;

  private final String prefix;

  RemoveRun(JanitorTask.RemoveNamespace task) {
    prefix = task.namespace() + '/';
  }

  @Override
  public void run(JanitorCalls calls, Tally tally) throws RunEnd {
    for (int pass = 0; pass < PASSES_MAX; pass++) {
      BlockWalk.walk(
          calls,
          prefix,
          tally,
          blocks -> {
            if (!blocks.isEmpty()) {
              calls.delete(BlockWalk.names(blocks));
              tally.add(JanitorCount.DELETED, blocks.size(), BlockWalk.bytes(blocks));
            }
          });
      if (tally.amount(JanitorCount.SEEN).objects() == 0) {
        return;
      }
    }
    tally.note("somebody still writes blocks of the namespace");
  }
}
