package io.kvtier.daemon.http;

import static org.junit.jupiter.api.Assertions.assertEquals;

import ch.qos.logback.classic.LoggerContext;
import io.kvtier.daemon.log.BurstFilter;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What is kept of warnings of which most are left out of the log. */
final class RecentErrorsTest {
  private static List<JsonObject> of(RecentErrors errors, String source) {
    JsonArray all = errors.json().getJsonArray("errors");
    return IntStream.range(0, all.size())
        .mapToObj(all::getJsonObject)
        .filter(one -> one.getString("source").equals(source))
        .toList();
  }

  @Test
  void burst_ofWhichLinesAreLeftOut_isCountedWhole() {
    LoggerContext context = (LoggerContext) LoggerFactory.getILoggerFactory();
    BurstFilter filter = new BurstFilter(2, TimeUnit.HOURS.toNanos(1), System::nanoTime);
    filter.setContext(context);
    filter.start();
    context.addTurboFilter(filter);
    RecentErrors errors = RecentErrors.listen();
    try {
      Logger logger = LoggerFactory.getLogger("io.kvtier.BurstPart");
      AtomicInteger writes = new AtomicInteger();
      Object state =
          new Object() {
            @Override
            public String toString() {
              return "look " + writes.incrementAndGet();
            }
          };
      for (int i = 0; i < 10; i++) {
        logger.warn("it failed: {}", "again", new IllegalStateException("no answer"));
        logger.info("all is well: {}", state);
      }
      // Two are written; of what is left out, only what is kept here is put into words.
      assertEquals(2, writes.get());

      List<JsonObject> kept = of(errors, "BurstPart");
      assertEquals(1, kept.size(), kept.toString());
      assertEquals("it failed: again: no answer", kept.getFirst().getString("text"));
      assertEquals("WARN", kept.getFirst().getString("level"));
      assertEquals(10, kept.getFirst().getInteger("count"));
    } finally {
      errors.detach();
      context.getTurboFilterList().remove(filter);
      filter.stop();
    }
  }
}
