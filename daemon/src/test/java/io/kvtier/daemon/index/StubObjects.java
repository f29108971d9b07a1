package io.kvtier.daemon.index;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.object.Deletions;
import io.kvtier.tiers.object.ObjectProbe;
import io.kvtier.tiers.object.PresenceCache;
import io.kvtier.tiers.object.StoreCall;
import io.kvtier.tiers.object.StoreResult;
import io.kvtier.tiers.transfer.Transfer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** An object tier in which nothing is: what is written ends as the test says, a round later. */
final class StubObjects {
  /** How what is written from now on ends. */
  Status answer = Status.OK;

  /** What operators had done, in words. */
  final List<String> commands = new ArrayList<>();

  /** How often it was asked to take a block. */
  int asked;

  /** What does it. */
  final IndexHarness.InlinePipeline pipeline =
      new IndexHarness.InlinePipeline(transfer -> transfer.status = run(transfer));

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
        pipeline,
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
