package io.kvtier.daemon.trace;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Recordings whose file is slow, or can't be written. */
@Timeout(120)
final class TraceRecorderTest {
  private static final Path FILE = Path.of("/nowhere/trace.gz");

  /** A file that takes nothing before it is let go. */
  private static final class SlowFile extends OutputStream {
    private final CountDownLatch letGo = new CountDownLatch(1);

    @Override
    public void write(int value) throws IOException {
      write(new byte[1], 0, 1);
    }

    @Override
    public void write(byte[] bytes, int from, int count) throws IOException {
      try {
        assertTrue(letGo.await(60, TimeUnit.SECONDS));
      } catch (InterruptedException e) {
        throw new IOException(e);
      }
    }
  }

  private static void await(TraceRecorder recorder, TraceRecorder.Phase phase) {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (recorder.phase() != phase && System.nanoTime() < end) {
      LockSupport.parkNanos(1_000_000);
    }
    assertEquals(phase, recorder.phase());
  }

  @Test
  void end_fileIsSlow_isNotWholeBeforeAllIsWritten() {
    SlowFile slow = new SlowFile();
    // The writing thread stands still from the header on.
    try (TraceRecorder recorder = new TraceRecorder(FILE, 100, () -> slow)) {
      recorder.record(0, 4096, new long[] {0, 0, 1, 2});
      recorder.end();
      assertTrue(recorder.isEnded());
      assertEquals(TraceRecorder.Phase.ENDING, recorder.phase());
      slow.letGo.countDown();
      await(recorder, TraceRecorder.Phase.WHOLE);
      assertEquals(new TraceRecorder.Summary(1, 2, 0), recorder.summary());
    }
  }

  @Test
  void record_fileCannotBeOpened_hasFailed() {
    IOException reason = new IOException("no");
    try (TraceRecorder recorder =
        new TraceRecorder(
            FILE,
            100,
            () -> {
              throw reason;
            })) {
      await(recorder, TraceRecorder.Phase.FAILED);
      assertTrue(recorder.isEnded());
      assertEquals(reason, recorder.failure());
    }
  }

  @Test
  void end_lastBytesCannotBeWritten_hasFailed() {
    OutputStream full =
        new ByteArrayOutputStream() {
          @Override
          public void close() throws IOException {
            throw new IOException("no space left on device");
          }
        };
    try (TraceRecorder recorder = new TraceRecorder(FILE, 100, () -> full)) {
      recorder.record(0, 4096, new long[] {0, 0, 1, 2});
      recorder.end();
      await(recorder, TraceRecorder.Phase.FAILED);
    }
  }
}
