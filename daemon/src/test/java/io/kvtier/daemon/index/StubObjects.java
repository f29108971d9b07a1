package io.kvtier.daemon.index;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.object.Deletions;
import io.kvtier.tiers.object.ObjectProbe;
import io.kvtier.tiers.object.PresenceCache;
import io.kvtier.tiers.object.StoreCall;
import io.kvtier.tiers.object.StoreResult;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/** An object tier in which nothing is: what is written ends as the test says, a round later. */
final class StubObjects {
  /** How what is written from now on ends. */
  Status answer = Status.OK;

  /** What operators had done, in words. */
  final List<String> commands = new ArrayList<>();

  /** How often it was asked to take a block. */
  int asked;

  /** Whether what is written is under way until {@link #end}. */
  boolean holds;

  private final ArrayDeque<Transfer> held = new ArrayDeque<>();
  private final ArrayDeque<Transfer> done = new ArrayDeque<>();

  /** What was written first, of what is held, has ended. */
  void end() {
    done.add(held.remove());
  }

  private final class Held implements Pipeline {
    @Override
    public boolean offer(Transfer transfer) {
      transfer.status = StubObjects.this.run(transfer);
      (holds ? held : done).add(transfer);
      return true;
    }

    @Override
    public int collect(Consumer<Transfer> finished) {
      int count = done.size();
      for (int i = 0; i < count; i++) {
        finished.accept(done.remove());
      }
      return count;
    }

    @Override
    public boolean hasFinished() {
      return !done.isEmpty();
    }

    @Override
    public int inFlight() {
      return held.size() + done.size();
    }

    @Override
    public void close() {}
  }

  private Status run(Transfer transfer) {
    if (transfer.kind == Transfer.Kind.LOAD) {
      return Status.MISS;
    }
    asked++;
    return answer;
  }

  /** The tier as the index is given it, with an admission policy. */
  ObjectParts parts(String admission) {
    return new ObjectParts(
        new Held(),
        8,
        () -> true,
        () -> true,
        new PresenceCache(new Empty(), 1 << 20, 1L << 40, 1L << 40, 1, 1L << 40, null),
        new NoDeletions(),
        admission,
        1 << 20,
        () -> null,
        null,
        words -> {
          commands.add(String.join(" ", words));
          return new OperatorAnswer(Status.OK, "");
        },
        () -> {},
        Map::of);
  }

  private static final class NoDeletions implements Deletions {
    @Override
    public boolean delete(String name) {
      return true;
    }

    @Override
    public boolean deleteAll(String prefix) {
      return true;
    }

    @Override
    public long queued() {
      return 0;
    }

    @Override
    public long done() {
      return 0;
    }

    @Override
    public boolean isPending(String name) {
      return false;
    }
  }

  private static final class Empty implements ObjectProbe {
    @Override
    public StoreCall head(String name, long timeoutNs) {
      return StoreCall.of(new StoreResult.Absent());
    }

    @Override
    public String describe() {
      return "nothing";
    }
  }
}
