package io.kvtier.tiers.object;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
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

  /** After the client was closed; the last one waits for the threads, within reason. */
  static synchronized void release() {
    users--;
    if (users > 0) {
      return;
    }
    CompletableFuture<Void> ended = new CompletableFuture<>();
    Thread.ofPlatform()
        .daemon()
        .name("s3-end")
        .start(() -> {
          try {
            CrtResource.waitForNoResources();
          } finally {
            ended.complete(null);
          }
        });
    try {
      ended.get(END_TIMEOUT_MS, TimeUnit.MILLISECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (ExecutionException | TimeoutException _) {
      // What hangs there hangs in others' code, and nothing is lost with it.
    }
    CRT.releaseShutdownRef();
  }
}
