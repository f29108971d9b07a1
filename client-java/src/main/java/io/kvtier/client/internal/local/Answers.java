package io.kvtier.client.internal.local;

import io.kvtier.client.BatchResult;
import io.kvtier.client.Blocks;
import io.kvtier.client.LookupResult;
import io.kvtier.client.PingResult;
import io.kvtier.client.TextResult;
import io.kvtier.client.ValueResult;
import io.kvtier.client.internal.session.Call;
import io.kvtier.client.internal.session.Session;
import io.kvtier.protocol.Status;
import org.jspecify.annotations.Nullable;

/** Reads the answers of operations. */
final class Answers {
  private Answers() {}

  static BatchResult batch(Operation answered) {
    return new BatchResult(answered.status(), answered.detail(), answered.blocks());
  }

  static LookupResult lookup(Operation answered) {
    Blocks blocks = answered.blocks();
    long loadTimeNs = 0;
    for (int c = 0; c < answered.calls(); c++) {
      Call call = answered.call(c);
      if (call.status() == Status.OK) {
        loadTimeNs += call.value();
        if (call.run() < call.expected()) {
          break;
        }
      }
    }
    return new LookupResult(
        answered.status(), answered.detail(), blocks, blocks.run(), loadTimeNs, holder(answered));
  }

  /** The holder of the longest prefix, over all calls of a lookup. */
  private static LookupResult.@Nullable Holder holder(Operation answered) {
    LookupResult.Holder holder = answered.call(0).holder();
    for (int c = 1; c < answered.calls() && holder != null; c++) {
      LookupResult.Holder found = answered.call(c).holder();
      if (found != null
          && holder.run() == c * answered.chunk()
          && holder.region() == found.region()) {
        holder =
            new LookupResult.Holder(
                holder.run() + found.run(), found.region(), found.gpu(), found.rank());
      }
    }
    return holder;
  }

  static ValueResult value(Operation answered) {
    return new ValueResult(answered.status(), answered.detail(), answered.value());
  }

  static PingResult ping(Operation answered, long startNs) {
    long roundTripNs = System.nanoTime() - startNs;
    Session session = answered.session();
    Status status = answered.status();
    String detail =
        status == Status.OK && session != null
            ? session.wires().info().version()
            : answered.detail();
    return new PingResult(status, detail, roundTripNs);
  }

  static TextResult text(Operation answered) {
    return new TextResult(answered.status(), answered.call(0).detail());
  }
}
