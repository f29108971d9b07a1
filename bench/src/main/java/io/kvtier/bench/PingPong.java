package io.kvtier.bench;

import io.kvtier.protocol.CompletionDescriptor;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.RingConsumer;
import io.kvtier.protocol.RingProducer;
import io.kvtier.protocol.SessionRegion;
import io.kvtier.protocol.linux.Descriptor;
import io.kvtier.protocol.linux.Futex;
import io.kvtier.protocol.linux.SharedMemory;
import io.kvtier.protocol.linux.UnixSocket;
import io.kvtier.protocol.linux.Words;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * The barest exchange between two processes on this machine: a word, or records of a ring, there
 * and back through shared memory. No local cache can answer faster.
 */
final class PingPong implements AutoCloseable {
  private static final long CONNECT_TIMEOUT_NS = 30_000_000_000L;
  private static final long ANSWER_TIMEOUT_NS = 10_000_000_000L;
  private static final long NAP_NS = 1_000_000_000L;

  private final Arena arena = Arena.ofShared();
  private final Worker peer;
  private final MemorySegment words;
  private final RingProducer requests;
  private final RingConsumer completions;
  private final Sampler sampler = new Sampler();
  private int sequence;

  /** Starts the other process and shares memory with it. */
  PingPong() throws Exception {
    Path folder = Files.createTempDirectory("kvtier-bench-");
    Path path = folder.resolve("peer.sock");
    long regionBytes =
        SessionRegion.regionBytes(Protocol.RING_BYTES_DEFAULT, Protocol.RING_BYTES_DEFAULT);
    try (UnixSocket listener = UnixSocket.listen(path, 0600);
        Descriptor wordsMemory = SharedMemory.create("kvtier-bench-words", Peer.WORDS_BYTES);
        Descriptor ringMemory = SharedMemory.create("kvtier-bench-rings", regionBytes)) {
      words = SharedMemory.map(wordsMemory, Peer.WORDS_BYTES, true, arena);
      SessionRegion region =
          SessionRegion.create(
              ringMemory, 1, Protocol.RING_BYTES_DEFAULT, Protocol.RING_BYTES_DEFAULT, arena);
      requests = region.requestProducer();
      completions = region.completionConsumer();
      List<String> command = new ArrayList<>(javaCommand());
      command.add("peer");
      command.add(path.toString());
      peer = new Worker(command);
      try (UnixSocket connection = accept(listener)) {
        connection.send(new byte[1], wordsMemory, ringMemory);
      }
    } finally {
      Files.deleteIfExists(path);
      Files.deleteIfExists(folder);
    }
  }

  /** The command line of the other process. */
  private static List<String> javaCommand() {
    return List.of(
        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
        "--enable-native-access=ALL-UNNAMED",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        "-Xmx64m",
        "-cp",
        System.getProperty("java.class.path"),
        Bench.class.getName());
  }

  private static UnixSocket accept(UnixSocket listener) throws Exception {
    long end = System.nanoTime() + CONNECT_TIMEOUT_NS;
    while (System.nanoTime() - end < 0) {
      UnixSocket connection = listener.accept();
      if (connection != null) {
        return connection;
      }
      Thread.sleep(5);
    }
    throw new IOException("the other process of the ping-pong did not connect");
  }

  /** The median round trip of a word while both sides spin, in microseconds. */
  double spinUs(long durationNs) throws Exception {
    begin("spin");
    double median = sampler.time(durationNs, () -> spinOnce(++sequence)).us(0.5);
    spinOnce(Peer.STOP);
    return median;
  }

  private void spinOnce(int ping) throws IOException {
    Words.putIntRelease(words, Peer.PING_OFFSET, ping);
    int spins = 0;
    long end = 0;
    while (Words.getIntAcquire(words, Peer.PONG_OFFSET) != ping) {
      Thread.onSpinWait();
      if ((++spins & 0xffff) == 0) {
        end = checkPatience(end);
      }
    }
  }

  /**
   * The median round trip of a word while both sides sleep, in microseconds.
   *
   * @param gapMs how long to rest before each
   */
  double futexUs(long durationNs, long gapMs) throws Exception {
    begin("futex");
    double median = sampler.time(durationNs, gapMs, () -> futexOnce(++sequence)).us(0.5);
    futexOnce(Peer.STOP);
    return median;
  }

  private void futexOnce(int ping) throws IOException {
    int before = Words.getIntVolatile(words, Peer.PONG_OFFSET);
    Words.putIntVolatile(words, Peer.PING_OFFSET, ping);
    Futex.wake(words, Peer.PING_OFFSET, 1);
    long end = 0;
    int naps = 0;
    while (Words.getIntVolatile(words, Peer.PONG_OFFSET) != ping) {
      Futex.await(words, Peer.PONG_OFFSET, before, NAP_NS);
      if (++naps > 1) {
        end = checkPatience(end);
      }
    }
  }

  /** Records through a ring and back, as many as go in a second; as long as those of an acquire. */
  double ringPerS(long durationNs, int inFlightMax) throws Exception {
    begin("ring");
    MemorySegment region = completions.region();
    long started = System.nanoTime();
    long sent = 0;
    long answered = 0;
    long elapsed = 0;
    boolean stopping = false;
    long end = 0;
    int spins = 0;
    while (!stopping || answered < sent) {
      boolean moved = false;
      if (!stopping) {
        elapsed = System.nanoTime() - started;
        stopping = elapsed > durationNs;
        while (sent - answered < inFlightMax && offer(stopping ? Peer.STOP : sent)) {
          sent++;
          moved = true;
          if (stopping) {
            break;
          }
        }
        // A full ring takes the last word later.
        stopping &= moved;
        requests.publish();
      }
      while (completions.hasNext()) {
        if (Words.getLong(region, completions.offset() + CompletionDescriptor.CORRELATION_OFFSET)
            > sent) {
          throw new IOException("an answer to what was not asked");
        }
        completions.skip(completions.recordBytes());
        answered++;
        moved = true;
      }
      completions.release();
      if (!moved) {
        Thread.onSpinWait();
        if ((++spins & 0xffff) == 0) {
          end = checkPatience(end);
        }
      }
    }
    return answered * 1e9 / (System.nanoTime() - started);
  }

  private boolean offer(long correlation) throws ProtocolViolation {
    long at = requests.tryClaim(Peer.REQUEST_BYTES);
    if (at < 0) {
      return false;
    }
    MemorySegment region = completions.region();
    Words.putInt(region, at, Peer.REQUEST_BYTES);
    Words.putLong(region, at + RequestDescriptor.CORRELATION_OFFSET, correlation);
    BenchKeys.put(region, at + RequestDescriptor.HEADER_BYTES, 1, correlation);
    return true;
  }

  private void begin(String mode) throws IOException {
    sequence = 0;
    Words.putIntVolatile(words, Peer.PING_OFFSET, 0);
    Words.putIntVolatile(words, Peer.PONG_OFFSET, 0);
    var _ = peer.ask(mode);
  }

  private static long checkPatience(long end) throws IOException {
    long now = System.nanoTime();
    if (end != 0 && now - end > 0) {
      throw new IOException("the other process of the ping-pong does not answer");
    }
    return end == 0 ? now + ANSWER_TIMEOUT_NS : end;
  }

  @Override
  public void close() {
    peer.close();
    arena.close();
  }
}
