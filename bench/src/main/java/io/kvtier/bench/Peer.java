package io.kvtier.bench;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.kvtier.protocol.CompletionDescriptor;
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
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;

/**
 * The other process of {@link PingPong}: it answers through shared memory and does nothing else, as
 * the barest daemon would. Between commands it sleeps on its standard input.
 */
final class Peer {
  static final int PING_OFFSET = 0;
  static final int PONG_OFFSET = 128;
  static final int WORDS_BYTES = 4096;

  /** The ping that ends a mode; also the correlation of the last record. */
  static final int STOP = -1;

  /** As long as the record of an acquire of one block. */
  static final int REQUEST_BYTES = RequestDescriptor.HEADER_BYTES + BenchKeys.KEY_BYTES;

  static final int COMPLETION_BYTES =
      CompletionDescriptor.HEADER_BYTES + CompletionDescriptor.LONG_RESULT_BYTES;

  // A partner that has died must not leave this process spinning.
  private static final long PATIENCE_NS = 10_000_000_000L;
  private static final int CONNECT_TIMEOUT_MS = 10_000;
  private static final int MESSAGE_BYTES = 64;

  private final MemorySegment words;
  private final RingConsumer requests;
  private final RingProducer completions;

  private Peer(MemorySegment words, SessionRegion region) {
    this.words = words;
    this.requests = region.requestConsumer();
    this.completions = region.completionProducer();
  }

  /** Gets the memory from that socket, then serves. */
  static void serve(Path socket) throws IOException, ProtocolViolation {
    try (Arena arena = Arena.ofShared();
        UnixSocket connection = UnixSocket.connect(socket, CONNECT_TIMEOUT_MS)) {
      UnixSocket.Message message = connection.receive(MESSAGE_BYTES);
      if (message == null || message.descriptors().size() != 2) {
        throw new IOException("no memory came from " + socket);
      }
      try (Descriptor first = message.descriptors().get(0);
          Descriptor second = message.descriptors().get(1)) {
        MemorySegment words = SharedMemory.map(first, WORDS_BYTES, true, arena);
        new Peer(words, SessionRegion.open(second, arena)).serve();
      }
    }
  }

  private void serve() throws IOException, ProtocolViolation {
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, UTF_8));
    String command = commands.readLine();
    while (command != null) {
      System.out.println("ok");
      switch (command) {
        case "spin" -> spin();
        case "futex" -> futex();
        case "ring" -> ring();
        default -> throw new IOException("no such mode: " + command);
      }
      command = commands.readLine();
    }
  }

  private void spin() {
    int last = 0;
    long patienceEnd = System.nanoTime() + PATIENCE_NS;
    int spins = 0;
    while (last != STOP) {
      int ping = Words.getIntAcquire(words, PING_OFFSET);
      if (ping != last) {
        last = ping;
        Words.putIntRelease(words, PONG_OFFSET, ping);
      } else if ((++spins & 0xfffff) == 0 && System.nanoTime() - patienceEnd > 0) {
        return;
      } else {
        Thread.onSpinWait();
      }
    }
  }

  private void futex() {
    int last = 0;
    long patienceEnd = System.nanoTime() + 2 * PATIENCE_NS;
    while (last != STOP) {
      int ping = Words.getIntVolatile(words, PING_OFFSET);
      if (ping != last) {
        last = ping;
        Words.putIntVolatile(words, PONG_OFFSET, ping);
        Futex.wake(words, PONG_OFFSET, 1);
      } else if (System.nanoTime() - patienceEnd > 0) {
        return;
      } else {
        Futex.await(words, PING_OFFSET, last, PATIENCE_NS / 10);
      }
    }
  }

  private void ring() throws ProtocolViolation {
    MemorySegment region = requests.region();
    long correlation = 0;
    long patienceEnd = System.nanoTime() + PATIENCE_NS;
    int spins = 0;
    while (correlation != STOP) {
      boolean worked = false;
      while (requests.hasNext()) {
        long answer = completions.tryClaim(COMPLETION_BYTES);
        if (answer < 0) {
          break;
        }
        long request = requests.offset();
        int bytes = requests.recordBytes();
        correlation = Words.getLong(region, request + RequestDescriptor.CORRELATION_OFFSET);
        Words.putInt(region, answer, COMPLETION_BYTES);
        Words.putLong(region, answer + CompletionDescriptor.CORRELATION_OFFSET, correlation);
        requests.skip(bytes);
        worked = true;
      }
      if (worked) {
        requests.release();
        completions.publish();
      } else if ((++spins & 0xfffff) == 0 && System.nanoTime() - patienceEnd > 0) {
        return;
      } else {
        Thread.onSpinWait();
      }
    }
  }
}
