package io.kvtier.tiers.object.janitor;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.object.ObjectCheck;
import io.kvtier.tiers.object.ObjectCipher;
import io.kvtier.tiers.object.StoreResult;
import io.kvtier.tiers.object.StoredObject;
import java.util.List;
import java.util.SplittableRandom;
import org.jspecify.annotations.Nullable;

/**
 * Reads blocks and checks them. What looks damaged is read a second time, for it may have been the
 * network; what is so twice counts as damaged.
 */
final class VerifyRun implements JanitorRun {
  private final JanitorTask.Verify task;
  private final ObjectCheck check;
  private final SplittableRandom random = new SplittableRandom();

  VerifyRun(JanitorTask.Verify task, @Nullable ObjectCipher cipher) {
    this.task = task;
    check = new ObjectCheck(cipher);
  }

  @Override
  public void run(JanitorCalls calls, Tally tally) throws RunEnd {
    BlockWalk.walk(
        calls,
        "",
        tally,
        blocks -> {
          for (StoredObject block : blocks) {
            tally.add(JanitorCount.LEFT, 1, block.bytes());
            if (random.nextDouble() < task.fraction()) {
              verify(calls, tally, block);
              tally.publish();
            }
          }
        });
  }

  private void verify(JanitorCalls calls, Tally tally, StoredObject block) throws RunEnd {
    Status status = read(calls, block);
    if (status == Status.CORRUPT) {
      status = read(calls, block);
    }
    if (status == Status.MISS) {
      return; // Deleted since it was listed.
    }
    tally.add(JanitorCount.VERIFIED, 1, block.bytes());
    if (status == Status.CORRUPT) {
      tally.add(JanitorCount.CORRUPT, 1, block.bytes());
      tally.corrupt(block.name());
      if (task.delete()) {
        calls.delete(List.of(block.name()));
        tally.add(JanitorCount.DELETED, 1, block.bytes());
        tally.add(JanitorCount.LEFT, -1, -block.bytes());
      }
    } else if (status != Status.OK) {
      tally.add(JanitorCount.UNREADABLE, 1, block.bytes());
    }
  }

  private Status read(JanitorCalls calls, StoredObject block) throws RunEnd {
    if (block.bytes() > ObjectCheck.BYTES_MAX) {
      return Status.CORRUPT;
    }
    StoreResult result = calls.get(block.name(), check.expect(block));
    return switch (result) {
      case StoreResult.Done(long received) -> check.check(received);
      case StoreResult.Absent _ -> Status.MISS;
      case StoreResult.Corrupt _ -> Status.CORRUPT;
      default -> throw JanitorCalls.failure("the get of " + block.name(), result);
    };
  }
}
