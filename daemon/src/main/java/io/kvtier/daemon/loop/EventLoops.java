package io.kvtier.daemon.loop;

import io.vertx.core.Context;
import java.util.concurrent.RejectedExecutionException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Hands tasks to event loops. */
public final class EventLoops {
  private static final Logger LOG = LoggerFactory.getLogger(EventLoops.class);

  private EventLoops() {}

  /**
   * Runs a task on an event loop, unless the loop has stopped; from any thread. The index's thread
   * calls this, and must not end because a server has stopped before the index.
   */
  public static void run(Context loop, Runnable task) {
    try {
      loop.runOnContext(_ -> task.run());
    } catch (RejectedExecutionException e) {
      LOG.debug("the event loop has stopped");
    }
  }
}
