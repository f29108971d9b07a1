package io.kvtier.cli;

import io.kvtier.client.KvtierClient;
import io.kvtier.client.TextResult;
import io.kvtier.protocol.Status;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** What the daemon does, again and again, from its memory: also of one that hangs. */
@Command(
    name = "top",
    description = {
      "Shows live what the daemon does: tiers, hits, throughput and errors.",
      "The figures are read from memory that the daemon shares. So top works when only the index"
          + " thread of the daemon hangs, but not when the whole process is suspended. Ctrl-C ends"
          + " it."
    })
final class TopCommand extends DaemonCommand {
  @Option(
      names = "--every",
      paramLabel = "SECONDS",
      defaultValue = "1",
      description = "Seconds between two readings. Default: ${DEFAULT-VALUE}.")
  private double everySeconds;

  @Option(names = "--count", paramLabel = "N", description = "Ends after N readings.")
  private int rounds = Integer.MAX_VALUE;

  @Override
  int run(KvtierClient client) {
    if (!(everySeconds >= 0.05 && everySeconds <= 3600)) {
      throw new Failure(
          Failure.USAGE, "--every is " + everySeconds + ", expected 0.05 to 3600 seconds");
    }
    if (isJson() || !isTerminal()) {
      watch(client, null);
    } else {
      try (AlternateScreen screen = new AlternateScreen(out())) {
        watch(client, screen);
      }
    }
    return 0;
  }

  /**
   * Reads and shows.
   *
   * @param screen null: lines follow one another
   */
  private void watch(KvtierClient client, @Nullable AlternateScreen screen) {
    Map<String, Long> before = client.counters();
    long beforeNs = System.nanoTime();
    Places places = places(client, before);
    for (int round = 0; round < rounds; round++) {
      try {
        Thread.sleep(Math.round(everySeconds * 1000));
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return;
      }
      Map<String, Long> now = client.counters();
      if (now.isEmpty()) {
        throw noDaemon(client.blocking().ping());
      }
      long nowNs = System.nanoTime();
      places = places.and(Places.of(now));
      show(client, screen, places, new CounterChange(before, now, (nowNs - beforeNs) / 1e9));
      before = now;
      beforeNs = nowNs;
    }
  }

  private static Places places(KvtierClient client, Map<String, Long> counters) {
    TextResult stats = client.blocking().stats();
    return stats.status() == Status.OK
        ? Places.of(new Report(parse(stats.text())))
        : Places.of(counters);
  }

  private void show(
      KvtierClient client, @Nullable AlternateScreen screen, Places places, CounterChange change) {
    if (isJson()) {
      line(change.json().toString());
      out().flush();
      return;
    }
    long heartbeatMs = client.sinceHeartbeat().map(Duration::toMillis).orElse(0L);
    List<String> lines = TopFrame.lines(client.socket(), places, change, heartbeatMs);
    if (screen != null) {
      screen.draw(lines.stream().map(DaemonCommand::styled).toList());
    } else {
      lines.forEach(this::line);
      line("");
      out().flush();
    }
  }
}
