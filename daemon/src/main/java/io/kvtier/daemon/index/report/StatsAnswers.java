package io.kvtier.daemon.index.report;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.index.session.CompletionWriter;
import io.kvtier.daemon.index.session.Session;
import io.kvtier.daemon.index.verbs.RequestAdapter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * The answers to STATS. The index's thread copies the state, an executor makes JSON of it, and the
 * index's thread writes the JSON into the session's memory.
 */
public final class StatsAnswers implements RequestAdapter.State {
  /** The largest completion of STATS. */
  private static final int BYTES_MAX = CompletionWriter.STATS_BYTES_MAX;

  /**
   * Maximum answers that wait for the executor; bounds the memory of their reports. Beyond it, the
   * index's thread makes the JSON.
   */
  public static final int WAITING_MAX = 4;

  /** Room for the header of a completion. */
  private static final int HEADER_BYTES_MAX = 64;

  /** An answer whose JSON is made. */
  public record Made(Session session, long correlationId, String json) {}

  private final Function<Grant, Report> state;
  private final Consumer<Made> finished;
  private @Nullable Executor maker;

  /** Answers that were given to the executor and are not written yet. */
  private int waiting;

  /**
   * @param state copies the state that a caller may see; called by the index's thread
   * @param finished hands an answer to the index's thread; called by the executor
   */
  public StatsAnswers(Function<Grant, Report> state, Consumer<Made> finished) {
    this.state = state;
    this.finished = finished;
  }

  /** Makes JSON with an executor from now on. Without an executor, the index's thread makes it. */
  public void makeWith(Executor executor) {
    maker = executor;
  }

  @Override
  public void answer(Session session, long correlationId, Grant asker) throws ProtocolViolation {
    Report report = state.apply(asker);
    session.reservedCompletionBytes += BYTES_MAX;
    Executor executor = maker;
    if (executor == null || waiting == WAITING_MAX) {
      complete(made(session, correlationId, report));
    } else {
      waiting++;
      executor.execute(() -> finished.accept(made(session, correlationId, report)));
    }
  }

  private static Made made(Session session, long correlationId, Report report) {
    return new Made(session, correlationId, ReportJson.of(report, BYTES_MAX - HEADER_BYTES_MAX));
  }

  /** Writes an answer of the executor, unless its session has ended meanwhile. */
  public void write(Made made) throws ProtocolViolation {
    waiting--;
    complete(made);
  }

  private static void complete(Made made) throws ProtocolViolation {
    Session session = made.session();
    if (!session.ended) {
      session.reservedCompletionBytes -= BYTES_MAX;
      session.completeText(
          Verb.STATS.code(), Status.OK, made.correlationId(), made.json(), BYTES_MAX);
    }
  }
}
