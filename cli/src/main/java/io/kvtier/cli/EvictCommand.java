package io.kvtier.cli;

import com.eclipsesource.json.JsonObject;
import io.kvtier.client.KvtierClient;
import java.util.concurrent.TimeUnit;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** Has blocks leave memory. */
@Command(
    name = "evict",
    description = {
      "Evicts blocks from host memory, in the order of the eviction policy. The tier below gets"
          + " the blocks that it admits.",
      "Blocks that are leased or pinned stay. Needs the role admin."
    })
final class EvictCommand extends DaemonCommand {
  private static final int AT_ONCE = 1024;
  private static final long PAUSE_MS = 20;

  @Mixin private Confirmation confirmation;

  @Option(names = "--blocks", paramLabel = "N", description = "Evicts N blocks.")
  private long blocks;

  @Option(names = "--all", description = "Evicts all blocks that are neither leased nor pinned.")
  private boolean all;

  @Option(
      names = "--wait",
      paramLabel = "SECONDS",
      defaultValue = "60",
      description = "Gives up after this time without progress. Default: ${DEFAULT-VALUE}.")
  private long waitSeconds;

  @Override
  int run(KvtierClient client) {
    if (all == (blocks > 0) || blocks < 0) {
      throw new Failure(Failure.USAGE, "expected --blocks N, with N of 1 or more, or --all");
    }
    confirmation.require(
        "Evict " + (all ? "all blocks" : Units.counted(blocks, "block")) + " from memory");
    long began = resident(client);
    long goal = all ? 0 : Math.max(0, began - blocks);
    long now = began;
    long lastProgress = System.nanoTime();
    while (now > goal && System.nanoTime() - lastProgress < TimeUnit.SECONDS.toNanos(waitSeconds)) {
      JsonObject answer = parse(ask(client, "evict " + Math.min(AT_ONCE, now - goal)));
      pause();
      long next = resident(client);
      if (next < now) {
        lastProgress = System.nanoTime();
      } else if (answer.getLong("evicted", 0) == 0 && inFlight(client) == 0) {
        // Nothing can leave, and nothing is on its way.
        break;
      }
      now = next;
    }
    if (isJson()) {
      line(new JsonObject().add("left", began - now).add("stay", now).toString());
    } else {
      line(
          Units.counted(began - now, "block")
              + " evicted from memory; "
              + Units.counted(now, "block")
              + " left");
    }
    return now <= goal ? 0 : Failure.NEGATIVE;
  }

  private long resident(KvtierClient client) {
    return report(client).tiers().getFirst().number("slots_resident");
  }

  private long inFlight(KvtierClient client) {
    return report(client).tiers().stream().mapToLong(tier -> tier.number("slots_in_flight")).sum();
  }

  private static void pause() {
    try {
      Thread.sleep(PAUSE_MS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new Failure(Failure.NEGATIVE, "interrupted");
    }
  }
}
