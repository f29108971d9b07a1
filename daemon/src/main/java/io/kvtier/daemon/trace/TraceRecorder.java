package io.kvtier.daemon.trace;

import io.kvtier.policies.BitMixer;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStream;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.SecureRandom;
import java.util.concurrent.locks.LockSupport;
import java.util.zip.GZIPOutputStream;
import org.jctools.queues.SpscArrayQueue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes the keys that are looked up to a file, in the format of Mooncake's traces: one JSON object
 * a line, {@code {"timestamp": MS, "hash_ids": [...]}}, compressed with gzip. Keys are mixed with a
 * salt that is not kept, so that a trace does not tell them. Told by the index's thread, which
 * never waits: what the writing thread can't take is counted. Ends by itself at its limit.
 */
public final class TraceRecorder implements AutoCloseable {
  /** What a recording came to. */
  public record Summary(Path file, long requests, long blocks, long lost, boolean failed) {}

  private static final Logger LOG = LoggerFactory.getLogger(TraceRecorder.class);
  private static final int WAITING_MAX = 4096;
  private static final long PAUSE_NS = 2_000_000L;
  private static final int JOIN_MS = 10_000;

  private final Path file;
  private final long requestsMax;
  private final long salt = new SecureRandom().nextLong();
  private final SpscArrayQueue<long[]> waiting = new SpscArrayQueue<>(WAITING_MAX);
  private final BufferedWriter out;
  private final Thread thread;
  private volatile boolean ended;
  private volatile boolean failed;

  // The recording thread's own.
  private long lost;
  private long taken;
  private long startNs;

  // The writing thread's own, until it has ended.
  private long written;
  private long blocks;

  /**
   * Begins a recording.
   *
   * @param file a file that is not there yet
   * @param requestsMax after how many requests it ends
   */
  public TraceRecorder(Path file, long requestsMax) throws IOException {
    this.file = file;
    this.requestsMax = requestsMax;
    OutputStream bytes =
        Files.newOutputStream(file, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
    out =
        new BufferedWriter(
            new OutputStreamWriter(new GZIPOutputStream(bytes, 1 << 16), StandardCharsets.UTF_8));
    thread = Thread.ofPlatform().daemon().name("kvtier-trace").start(this::write);
  }

  /**
   * A request was made.
   *
   * @param fingerprints of its keys, in prefix order; the array is the recorder's from now on, but
   *     for its first place, which it fills
   */
  public void record(long nowNs, long[] fingerprints) {
    if (ended || fingerprints.length < 2) {
      return;
    }
    if (taken == 0) {
      startNs = nowNs;
    }
    fingerprints[0] = (nowNs - startNs) / 1_000_000L;
    if (waiting.offer(fingerprints)) {
      taken++;
      ended = taken >= requestsMax;
    } else {
      lost++;
    }
  }

  /** Whether it has ended by itself or was stopped. */
  public boolean isEnded() {
    return ended;
  }

  /** The file that is written. */
  public Path file() {
    return file;
  }

  /** What was written; after {@link #close}. */
  public Summary summary() {
    return new Summary(file, written, blocks, lost, failed);
  }

  private void write() {
    try (out) {
      StringBuilder line = new StringBuilder();
      while (true) {
        boolean last = ended;
        long[] request = waiting.poll();
        if (request != null) {
          append(line, request);
        } else if (last) {
          return;
        } else {
          LockSupport.parkNanos(PAUSE_NS);
        }
      }
    } catch (IOException | RuntimeException e) {
      failed = true;
      ended = true;
      LOG.error("the trace '{}' can't be written any more: {}", file, e.toString());
    }
  }

  private void append(StringBuilder line, long[] request) throws IOException {
    line.setLength(0);
    line.append("{\"timestamp\": ").append(request[0]).append(", \"hash_ids\": [");
    for (int i = 1; i < request.length; i++) {
      line.append(i == 1 ? "" : ", ").append(BitMixer.mix(request[i] ^ salt) >>> 1);
    }
    out.append(line.append("]}\n"));
    written++;
    blocks += request.length - 1;
  }

  /** Ends the recording, and waits until the file is whole. */
  @Override
  public void close() {
    ended = true;
    LockSupport.unpark(thread);
    try {
      thread.join(JOIN_MS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
