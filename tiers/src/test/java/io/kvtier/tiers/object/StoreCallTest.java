package io.kvtier.tiers.object;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** How a call ends when two threads end it. */
@Timeout(value = 60, unit = TimeUnit.SECONDS)
final class StoreCallTest {
  @Test
  void cancel_anotherThreadIsJustEndingIt_waitsForTheOutcome() throws Exception {
    StoreCall call = new StoreCall();
    CountDownLatch ending = new CountDownLatch(1);
    CountDownLatch goOn = new CountDownLatch(1);
    call.onAbort(() -> {
      ending.countDown();
      await(goOn);
    });
    Thread timer = Thread.ofPlatform().start(() -> call.end(new StoreResult.Expired()));
    await(ending);
    CompletableFuture<Boolean> isThere = new CompletableFuture<>();
    Thread caller =
        Thread.ofPlatform()
            .start(() -> {
              call.cancel();
              isThere.complete(call.result().isDone());
            });
    while (caller.getState() != Thread.State.WAITING && caller.isAlive()) {
      Thread.sleep(1);
    }
    goOn.countDown();
    assertTrue(isThere.get(), "the memory is the caller's while the call is still being ended");
    assertEquals(new StoreResult.Expired(), call.result().join());
    timer.join();
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
