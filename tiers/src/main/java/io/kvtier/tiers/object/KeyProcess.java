package io.kvtier.tiers.object;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** One run of a {@link KeySource.KeyCommand}: bounded in time and in what is read of it. */
final class KeyProcess {
  /** How much of what it complains of is passed on. */
  private static final int COMPLAINT_BYTES_MAX = 300;

  private final KeySource.KeyCommand command;

  KeyProcess(KeySource.KeyCommand command) {
    this.command = command;
  }

  /**
   * What it prints on its standard output, and one byte more than that may be at most.
   *
   * @throws IOException when it can't be run, fails or takes too long
   */
  byte[] output() throws IOException {
    long started = System.nanoTime();
    Process process;
    try {
      process =
          new ProcessBuilder(command.arguments()).redirectInput(new File("/dev/null")).start();
    } catch (IOException e) {
      throw new IOException(command.describe() + " can't be run: " + e.getMessage(), e);
    }
    try {
      CompletableFuture<byte[]> output =
          beginning(process.getInputStream(), KeySource.BYTES_MAX + 1);
      CompletableFuture<byte[]> complaint =
          beginning(process.getErrorStream(), COMPLAINT_BYTES_MAX);
      // Also when the program has ended: something that it started may hold its output open.
      byte[] printed = output.get(leftNs(started), TimeUnit.NANOSECONDS);
      if (printed.length > KeySource.BYTES_MAX) {
        return printed;
      }
      if (!process.waitFor(leftNs(started), TimeUnit.NANOSECONDS)) {
        throw new TimeoutException();
      }
      int code = process.exitValue();
      if (code != 0) {
        byte[] said = complaint.get(leftNs(started), TimeUnit.NANOSECONDS);
        throw new IOException(command.describe() + " exits with " + code + ": " + firstLine(said));
      }
      return printed;
    } catch (TimeoutException e) {
      throw new IOException(
          command.describe()
              + " has not ended after "
              + TimeUnit.NANOSECONDS.toMillis(command.timeoutNs())
              + " ms: run it by hand, or give it more time",
          e);
    } catch (ExecutionException e) {
      throw new IOException(command.describe() + " can't be read: " + e.getCause(), e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException(command.describe() + " was not waited for", e);
    } finally {
      end(process);
    }
  }

  private long leftNs(long started) {
    return Math.max(0, command.timeoutNs() - (System.nanoTime() - started));
  }

  private static String firstLine(byte[] said) {
    String text = new String(said, StandardCharsets.UTF_8).strip();
    return text.isEmpty() ? "it does not say why" : text.lines().findFirst().orElse("");
  }

  /** Reads so many bytes, or up to the end; whoever waits for it may stop waiting. */
  private static CompletableFuture<byte[]> beginning(InputStream stream, int bytesMax) {
    CompletableFuture<byte[]> bytes = new CompletableFuture<>();
    Thread.ofPlatform()
        .daemon()
        .name("kvtier-key-command")
        .start(() -> {
          try {
            bytes.complete(stream.readNBytes(bytesMax));
          } catch (IOException e) {
            bytes.completeExceptionally(e);
          }
        });
    return bytes;
  }

  /** It and all that it started, whose ends of the pipes keep our threads waiting. */
  private static void end(Process process) {
    process.descendants().forEach(ProcessHandle::destroyForcibly);
    process.destroyForcibly();
  }
}
