package io.kvtier.tiers.object;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import software.amazon.awssdk.crt.CRT;
import software.amazon.awssdk.crt.CrtResource;

/**
 * Keeps the native library under the SDK's client working for as long as a client is open.
 *
 * <p>Left alone, it takes the first word of a shutdown of the Java machine for the end: no call
 * that is under way is answered any more. But just then the daemon has blocks to store. And where
 * its threads still run at the very end, the process waits for them, by the wall clock.
 */
final class CrtLife {
  private static final Logger LOG = LoggerFactory.getLogger(CrtLife.class);
  private static final long END_TIMEOUT_MS = 3_000;

  private static int users;

  private CrtLife() {}

  /** Before a client is made. */
  static synchronized void acquire() {
    if (users == 0) {
      CRT.acquireShutdownRef();
    }
    users++;
  }

  /**
   * After the client was closed; the last one waits for the threads, within reason. One that is
   * opened meanwhile doesn't wait.
   */
  static void release() {
    synchronized (CrtLife.class) {
      users--;
      if (users > 0) {
        return;
      }
      // For as long as it is waited.
      users++;
    }
    awaitThreads();
    synchronized (CrtLife.class) {
      users--;
      if (users == 0) {
        CRT.releaseShutdownRef();
      }
    }
  }

  private static void awaitThreads() {
    CompletableFuture<Void> ended = new CompletableFuture<>();
    Thread.ofPlatform()
        .daemon()
        .name("s3-end")
        .start(() -> {
          try {
            CrtResource.waitForNoResources();
          } catch (RuntimeException e) {
            // It gives up by itself after a minute: nobody waits for it by then.
            LOG.debug("threads of the S3 client are still there", e);
          }
          ended.complete(null);
        });
    try {
      ended.get(END_TIMEOUT_MS, TimeUnit.MILLISECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (ExecutionException | TimeoutException _) {
      // What hangs there hangs in others' code, and nothing is lost with it.
    }
  }
}
