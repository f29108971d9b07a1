package io.kvtier.tiers.gpu;

import io.kvtier.layout.Runs;
import io.kvtier.protocol.Status;
import org.jspecify.annotations.Nullable;

/**
 * One copy between device and host: a block, or some layers and heads of it. Filled by who submits
 * it, and that one's again when it is finished.
 */
public final class Copy {
  /** What to copy. */
  public final Runs runs = new Runs();

  /** Nothing is copied before this event is done; null: at once. */
  public @Nullable GpuEvent after;

  /** The submitter's own: which transfer this is. */
  public long tag;

  /** While it waits for its event, it is handed back undone. Set by any thread. */
  public volatile boolean isGivenUp;

  /** The outcome: OK, IO_ERROR, or CANCELLED. */
  public Status status = Status.OK;

  // Where the lane has come to.
  int nextEntry;
  int nextByte;

  /** In how many batches of the GPU's it is. */
  int batches;

  void begin() {
    status = Status.OK;
    nextEntry = 0;
    nextByte = 0;
    batches = 0;
  }

  boolean isAllTaken() {
    return nextEntry == runs.entries();
  }

  /** Goes on behind the next bytes, which are at most the rest of an entry. */
  void take(int bytes) {
    nextByte += bytes;
    if (nextByte == runs.bytes(nextEntry)) {
      nextEntry++;
      nextByte = 0;
    }
  }

  int meanRunBytes() {
    return runs.count() == 0 ? 0 : (int) (runs.totalBytes() / runs.count());
  }

  /** The mean of the pieces on the host: a staged copy crosses the link piece by piece. */
  int meanSpanBytes() {
    int spans = runs.hostSpans();
    return spans == 0 ? 0 : (int) Math.min(Integer.MAX_VALUE, runs.totalBytes() / spans);
  }
}
