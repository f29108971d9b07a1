package io.kvtier.tiers.transfer;

import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class ThreadedPipelineTest {
  @Test
  void leg_throws_isTold() throws InterruptedException {
    BlockingQueue<Throwable> told = new ArrayBlockingQueue<>(1);
    OutOfMemoryError thrown = new OutOfMemoryError("planted");
    try (ThreadedPipeline pipeline =
        new ThreadedPipeline(
            "test",
            1,
            2,
            transfer -> {
              throw thrown;
            },
            null,
            () -> {},
            told::add)) {
      assertTrue(pipeline.offer(new Transfer(0)));
      assertSame(thrown, told.poll(60, TimeUnit.SECONDS));
    }
  }
}
