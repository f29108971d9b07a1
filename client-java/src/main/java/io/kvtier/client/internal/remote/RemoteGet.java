package io.kvtier.client.internal.remote;

import io.kvtier.client.Options;
import io.kvtier.client.internal.shared.Outcome;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.v1.GetRequest;
import io.kvtier.protocol.v1.GetResponse;
import io.kvtier.protocol.v1.KvtierGrpcClient;
import io.vertx.core.Future;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/**
 * Receives the blocks of one Get, and checks the places and lengths in its messages: the daemon may
 * be hostile. Confined to the event loop.
 */
final class RemoteGet implements GetMessages.Taker {
  private final List<MemorySegment> destinations;
  private final long blockBytes;
  private final Status[] statuses;
  private final TierId[] tiers;
  private final CRC32C crc = new CRC32C();
  private boolean isAnswered;
  private int block = -1;
  private long filled;
  private Status refusal = Status.OK;
  private String refusalText = "";
  private RemoteChannel.@Nullable Failure failure;

  private RemoteGet(List<MemorySegment> destinations, long blockBytes) {
    this.destinations = destinations;
    this.blockBytes = blockBytes;
    statuses = new Status[destinations.size()];
    Arrays.fill(statuses, Status.UNAVAILABLE);
    tiers = new TierId[destinations.size()];
    Arrays.fill(tiers, TierId.NONE);
  }

  /** Asks for blocks; completes with the end of the answer. */
  static Future<RemoteGet> of(
      RemoteChannel channel,
      io.kvtier.protocol.v1.Keys keys,
      List<MemorySegment> destinations,
      long blockBytes,
      Options options,
      long deadlineNs) {
    GetRequest message =
        GetRequest.newBuilder()
            .setKeys(keys)
            .setLeadingRun(options.leadingRun())
            .setNoWait(options.noWait())
            .setExpectedFrom(options.expectedFrom())
            .setPriority(
                switch (options.priority()) {
                  case HIGH -> io.kvtier.protocol.v1.Priority.PRIORITY_HIGH;
                  case NORMAL -> io.kvtier.protocol.v1.Priority.PRIORITY_NORMAL;
                  case LOW -> io.kvtier.protocol.v1.Priority.PRIORITY_LOW;
                })
            .build();
    RemoteGet get = new RemoteGet(destinations, blockBytes);
    return channel
        .repeat(
            () ->
                channel.transfer(
                    KvtierGrpcClient.Get,
                    deadlineNs,
                    call -> {
                      var _ = call.write(RemoteCall.framed(message));
                      call.end();
                      return call.receive(new GetMessages(get)).map(get);
                    }),
            () -> !get.isAnswered,
            deadlineNs)
        .recover(error -> {
          // Blocks that came before the failure are whole, and checked.
          if (error instanceof RemoteChannel.Failure broken
              && Arrays.asList(get.statuses).contains(Status.OK)) {
            get.failure = broken;
            return Future.succeededFuture(get);
          }
          return Future.failedFuture(error);
        });
  }

  @Override
  public void onPlace(GetResponse place, int bytes) {
    isAnswered = true;
    if (place.hasRefusal()) {
      throw nonsense("the daemon sent bytes of a block in a refusal");
    }
    begin(place.getBlock());
    if (place.getOffset() != filled || bytes > blockBytes - filled) {
      throw nonsense(
          "the daemon sent "
              + bytes
              + " bytes at "
              + place.getOffset()
              + " of a block, of which "
              + filled
              + " have come");
    }
  }

  private void begin(int index) {
    if (index < 0 || index >= statuses.length) {
      throw nonsense("the daemon sent bytes of block " + index + ", of " + statuses.length);
    }
    if (index != block) {
      block = index;
      filled = 0;
      crc.reset();
    }
  }

  @Override
  public void onData(ByteBuffer data) {
    MemorySegment.copy(
        MemorySegment.ofBuffer(data), 0, destinations.get(block), filled, data.remaining());
    filled += data.remaining();
    crc.update(data);
  }

  @Override
  public void onMessage(GetResponse message) {
    isAnswered = true;
    if (message.hasRefusal()) {
      refusal = Status.of(message.getRefusal().getStatusValue());
      refusalText = message.getRefusal().getText();
      return;
    }
    int index = message.getBlock();
    begin(index);
    if (message.getLast()) {
      tiers[index] = TierId.of(Math.clamp(message.getTierValue(), 0, TierId.values().length - 1));
      Status status = Status.of(message.getStatusValue());
      boolean isWhole = filled == blockBytes && (int) crc.getValue() == message.getCrc32C();
      statuses[index] = status == Status.OK && !isWhole ? Status.CORRUPT : status;
    }
  }

  private static RemoteChannel.Failure nonsense(String why) {
    return new RemoteChannel.Failure(Status.UNAVAILABLE, why);
  }

  /** Why the daemon refused the whole get; OK if it did not. */
  Status refusal() {
    return refusal;
  }

  /**
   * Adds the outcome of each block.
   *
   * @return whether the next part is needed
   */
  boolean into(Outcome outcome, int from, int count, Options options) {
    if (refusal != Status.OK) {
      outcome.note(refusal, refusalText);
      Arrays.fill(statuses, refusal);
    }
    RemoteChannel.Failure broken = failure;
    if (broken != null) {
      outcome.note(broken.status(), broken.why());
      Arrays.setAll(
          statuses, i -> statuses[i] == Status.UNAVAILABLE ? broken.status() : statuses[i]);
    }
    for (int i = 0; i < statuses.length; i++) {
      outcome.set(from + i, statuses[i], tiers[i]);
    }
    if (options.leadingRun() && Arrays.asList(statuses).contains(Status.MISS)) {
      for (int i = from + statuses.length; i < count; i++) {
        outcome.set(i, Status.MISS, TierId.NONE);
      }
      return false;
    }
    return true;
  }
}
