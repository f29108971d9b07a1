package io.kvtier.client.internal.remote;

import io.kvtier.client.BatchResult;
import io.kvtier.client.Keys;
import io.kvtier.client.Options;
import io.kvtier.client.internal.shared.Outcome;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.v1.BlockResult;
import io.vertx.core.Future;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiFunction;

/** Batches of a remote client: their keys go in parts, one call for each. */
final class RemoteBatch {
  private RemoteBatch() {}

  /**
   * Carries out a batch, one part after the other. The blocks of a part that fails have the status
   * of its failure.
   *
   * @param call carries out a part; false: nothing further is asked for
   */
  static CompletableFuture<BatchResult> run(
      RemoteChannel channel,
      Keys keys,
      Options options,
      BiFunction<KeysPart, Outcome, Future<Boolean>> call) {
    KeysPart first = KeysPart.at(0, keys, options, channel.deadlineNs(options));
    Outcome outcome = new Outcome(keys.count());
    return RemoteChannel.done(
        channel.begin(() -> parts(first, outcome, call)).map(v -> outcome.result()),
        failure -> {
          fail(outcome, 0, keys.count(), failure);
          return outcome.result();
        });
  }

  private static Future<Void> parts(
      KeysPart part, Outcome outcome, BiFunction<KeysPart, Outcome, Future<Boolean>> call) {
    if (part.count() == 0) {
      return Future.succeededFuture();
    }
    return call.apply(part, outcome)
        .recover(error -> {
          if (error instanceof RemoteChannel.Failure failure) {
            fail(outcome, part.from(), part.count(), failure);
            return Future.succeededFuture(true);
          }
          return Future.failedFuture(error);
        })
        .compose(goesOn ->
            goesOn
                ? parts(
                    KeysPart.at(part.end(), part.keys(), part.options(), part.deadlineNs()),
                    outcome,
                    call)
                : Future.succeededFuture());
  }

  private static void fail(Outcome outcome, int from, int count, RemoteChannel.Failure failure) {
    outcome.note(failure.status(), failure.why());
    for (int i = from; i < from + count; i++) {
      outcome.set(i, failure.status(), TierId.NONE);
    }
  }

  static Status statusOf(io.kvtier.protocol.v1.Outcome outcome) {
    return Status.of(outcome.getStatusValue());
  }

  private static TierId tierOf(BlockResult block) {
    int code = block.getTierValue();
    return code >= 0 && code < TierId.values().length ? TierId.of(code) : TierId.NONE;
  }

  static void fill(
      Outcome outcome,
      KeysPart part,
      io.kvtier.protocol.v1.Outcome answered,
      List<BlockResult> blocks) {
    Status whole = statusOf(answered);
    if (whole == Status.OK && blocks.size() != part.count()) {
      whole = Status.INTERNAL;
    }
    if (whole != Status.OK) {
      outcome.note(whole, answered.getText());
    }
    for (int i = 0; i < part.count(); i++) {
      outcome.set(
          part.from() + i,
          whole == Status.OK ? Status.of(blocks.get(i).getStatusValue()) : whole,
          whole == Status.OK ? tierOf(blocks.get(i)) : TierId.NONE);
    }
  }
}
