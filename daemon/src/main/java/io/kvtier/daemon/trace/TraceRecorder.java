package io.kvtier.daemon.trace;

import io.kvtier.policies.BitMixer;
import io.kvtier.tiers.files.OwnFiles;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStream;
import java.io.OutputStreamWriter;
import java.nio.channels.Channels;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.SecureRandom;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;
import java.util.zip.GZIPOutputStream;
import org.jctools.queues.SpscArrayQueue;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes the keys that are looked up to a file, in the format of Mooncake's traces: one JSON object
 * a line, {@code {"timestamp": MS, "block_bytes": N, "hash_ids": [...]}}, compressed with gzip.
 * Keys are mixed with a salt that is not kept, so that a trace does not tell them. Told by the
 * index's thread, which never waits: what the writing thread can't take is counted, and the file is
 * opened and brought to its end by that thread alone. Ends by itself at its limit.
 */
public final class TraceRecorder implements AutoCloseable {
  /** How far a recording is. */
  public enum Phase {
    /** Its file is being opened. */
    OPENING,
    /** It takes what is looked up. */
    RECORDING,
    /** It takes no more, and its file is not whole yet. */
    ENDING,
    /** Its file is whole. */
    WHOLE,
    /** Its file could not be had, or not be written to its end. */
    FAILED
  }

  /** What a recording came to. */
  public record Summary(long requests, long blocks, long lost) {}

  /** Opens what is written to. */
  @FunctionalInterface
  interface Opener {
    OutputStream open() throws IOException;
  }

  /** Places of a request before its fingerprints: its time and the size of its blocks. */
  public static final int HEADER = 2;

  private static final Logger LOG = LoggerFactory.getLogger(TraceRecorder.class);
  private static final int WAITING_MAX = 4096;
  private static final long PAUSE_NS = 2_000_000L;
  private static final int JOIN_MS = 10_000;

  private final Path file;
  private final long requestsMax;
  private final Opener opener;
  private final long salt = new SecureRandom().nextLong();
  private final SpscArrayQueue<long[]> waiting = new SpscArrayQueue<>(WAITING_MAX);
  private final Thread thread;
  private volatile boolean ended;

  // The recording thread's own.
  private long lost;
  private long taken;
  private long startNs;

  // The writing thread's own, until its phase is one that has ended.
  private long written;
  private long blocks;
  private @Nullable Exception failure;
  private volatile Phase phase = Phase.OPENING;

  /**
   * Begins a recording.
   *
   * @param file a file that is not there yet
   * @param requestsMax after how many requests it ends
   */
  public TraceRecorder(Path file, long requestsMax) {
    this(
        file,
        requestsMax,
        () ->
            Channels.newOutputStream(
                Files.newByteChannel(
                    file,
                    Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE),
                    OwnFiles.FILE)));
  }

  TraceRecorder(Path file, long requestsMax, Opener opener) {
    this.file = file;
    this.requestsMax = requestsMax;
    this.opener = opener;
    thread = Thread.ofPlatform().daemon().name("kvtier-trace").start(this::run);
  }

  /**
   * A request was made.
   *
   * @param blockBytes the size of its blocks; 0 where that is not known
   * @param fingerprints of its keys, in prefix order, behind {@link #HEADER} places that the
   *     recorder fills; the array is the recorder's from now on
   */
  public void record(long nowNs, long blockBytes, long[] fingerprints) {
    if (ended || fingerprints.length <= HEADER) {
      return;
    }
    if (taken == 0) {
      startNs = nowNs;
    }
    fingerprints[0] = (nowNs - startNs) / 1_000_000L;
    fingerprints[1] = blockBytes;
    if (waiting.offer(fingerprints)) {
      taken++;
      ended = taken >= requestsMax;
    } else {
      lost++;
    }
  }

  /** Whether it takes no more: it has ended by itself, or was ended. */
  public boolean isEnded() {
    return ended;
  }

  /** How far it is. */
  public Phase phase() {
    Phase reached = phase;
    boolean isUnderWay = reached == Phase.OPENING || reached == Phase.RECORDING;
    return isUnderWay && ended ? Phase.ENDING : reached;
  }

  /** The file that is written. */
  public Path file() {
    return file;
  }

  /** After how many requests it ends by itself. */
  public long requestsMax() {
    return requestsMax;
  }

  /** What was written; once the file is whole, or has failed. */
  public Summary summary() {
    return new Summary(written, blocks, lost);
  }

  /** Why it has failed; once it has. */
  public @Nullable Exception failure() {
    return failure;
  }

  private void run() {
    Phase last = Phase.FAILED;
    try {
      write();
      last = Phase.WHOLE;
    } catch (IOException | RuntimeException e) {
      failure = e;
      if (phase != Phase.OPENING) {
        LOG.error("the trace '{}' can't be written any more: {}", file, e.toString());
      }
    } finally {
      ended = true;
      phase = last;
    }
  }

  private void write() throws IOException {
    try (OutputStream bytes = opener.open();
        BufferedWriter out =
            new BufferedWriter(
                new OutputStreamWriter(
                    new GZIPOutputStream(bytes, 1 << 16), StandardCharsets.UTF_8))) {
      phase = Phase.RECORDING;
      StringBuilder line = new StringBuilder();
      while (true) {
        boolean last = ended;
        long[] request = waiting.poll();
        if (request != null) {
          append(out, line, request);
        } else if (last) {
          return;
        } else {
          LockSupport.parkNanos(PAUSE_NS);
        }
      }
    }
  }

  private void append(BufferedWriter out, StringBuilder line, long[] request) throws IOException {
    line.setLength(0);
    line.append("{\"timestamp\": ").append(request[0]);
    if (request[1] > 0) {
      line.append(", \"block_bytes\": ").append(request[1]);
    }
    line.append(", \"hash_ids\": [");
    for (int i = HEADER; i < request.length; i++) {
      line.append(i == HEADER ? "" : ", ").append(BitMixer.mix(request[i] ^ salt) >>> 1);
    }
    out.append(line.append("]}\n"));
    written++;
    blocks += request.length - HEADER;
  }

  /** Takes no more from now on; the file is brought to its end meanwhile. */
  public void end() {
    ended = true;
    LockSupport.unpark(thread);
  }

  /** Ends the recording, and waits until the file is whole; not for ever. */
  @Override
  public void close() {
    end();
    try {
      thread.join(JOIN_MS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
