package io.kvtier.bench;

import io.kvtier.client.BatchResult;
import io.kvtier.client.Keys;
import io.kvtier.client.KvtierClient;
import io.kvtier.client.Namespace;
import io.kvtier.client.Options;
import io.kvtier.protocol.Status;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * What gets from memory take while the object store takes every request and answers none, and
 * another client asks for blocks that only it could have: against the same gets without that.
 */
final class ObjectDownScenario {
  private static final long HOST_BYTES = 256L << 20;
  private static final int BLOCK_BYTES = 64 << 10;
  private static final int BLOCKS = 512;
  private static final int GETS = 4_000;
  private static final int ABSENT_BATCH = 64;
  private static final Duration ABSENT_TIMEOUT = Duration.ofSeconds(1);
  private static final long TAG = 7;

  private final Setup setup;

  ObjectDownScenario(Setup setup) {
    this.setup = setup;
  }

  /** Takes connections and whatever comes in by them. */
  private static final class Silence implements AutoCloseable {
    private final ServerSocket server = new ServerSocket(0, 64, InetAddress.getLoopbackAddress());
    private final ExecutorService threads =
        Executors.newCachedThreadPool(Thread.ofPlatform().daemon().factory());

    Silence() throws IOException {
      threads.execute(() -> {
        try {
          while (true) {
            Socket one = server.accept();
            threads.execute(() -> swallow(one));
          }
        } catch (IOException e) {
          // Closed.
        }
      });
    }

    private static void swallow(Socket socket) {
      try (socket) {
        long _ = socket.getInputStream().transferTo(OutputStream.nullOutputStream());
      } catch (IOException e) {
        // The other side has gone.
      }
    }

    String endpoint() {
      return "http://127.0.0.1:" + server.getLocalPort();
    }

    @Override
    public void close() throws IOException {
      server.close();
      threads.shutdownNow();
    }
  }

  void run(Report report) throws Exception {
    try (Silence silence = new Silence();
        DaemonProcess daemon =
            new DaemonProcess(
                setup.root(),
                HOST_BYTES,
                "object.store=s3",
                "object.s3.endpoint=" + silence.endpoint(),
                "object.s3.bucket=bench",
                "object.ledger_bytes=0",
                "object.load_timeout=1s",
                "object.probe_timeout=1s");
        KvtierClient client = daemon.connect();
        KvtierClient other = daemon.connect();
        Arena arena = Arena.ofShared();
        ExecutorService background = Executors.newSingleThreadExecutor()) {
      Gets gets = new Gets(client, arena);
      Rounds rounds =
          Rounds.measure(
              setup.warmUps(),
              setup.rounds(),
              into -> {
                gets.run(into, "alone");
                AtomicBoolean running = new AtomicBoolean(true);
                Future<Long> asked = background.submit(() -> ask(other, running));
                try {
                  // The first calls are under way, or the breaker is open: either is a day of it.
                  Thread.sleep(200);
                  gets.run(into, "down");
                } finally {
                  running.set(false);
                }
                into.add("asked", asked.get());
              });
      for (String part : new String[] {"p50", "p99"}) {
        report.add(
            new Row(
                "local_get_" + part + "_object_store_silent_us",
                rounds.median("down_" + part),
                "us",
                "the same gets alone",
                rounds.median("alone_" + part)));
      }
    }
  }

  /** Asks for blocks that are nowhere, as long as the flag stands; returns for how many. */
  private static long ask(KvtierClient client, AtomicBoolean running) {
    try (Arena arena = Arena.ofConfined()) {
      Namespace namespace =
          client.namespace("bench-absent", BLOCK_BYTES, Map.of("purpose", "kvtier bench"));
      MemorySegment keyBytes = arena.allocate((long) ABSENT_BATCH * BenchKeys.KEY_BYTES, 8);
      Keys keys = Keys.wrap(keyBytes, BenchKeys.KEY_BYTES);
      List<MemorySegment> targets = new ArrayList<>();
      for (int i = 0; i < ABSENT_BATCH; i++) {
        targets.add(arena.allocate(BLOCK_BYTES, 64));
      }
      Options options = Options.DEFAULT.withTimeout(ABSENT_TIMEOUT);
      long asked = 0;
      while (running.get()) {
        for (int i = 0; i < ABSENT_BATCH; i++) {
          BenchKeys.put(keyBytes, (long) i * BenchKeys.KEY_BYTES, TAG, asked++);
        }
        BatchResult result = client.blocking().get(namespace, keys, targets, options);
        if (result.blocks().count(Status.OK) > 0) {
          throw new IllegalStateException("blocks that nobody put were found: " + result);
        }
      }
      return asked;
    }
  }

  /** Gets of blocks in memory, one at a time. */
  private static final class Gets {
    private final KvtierClient client;
    private final Namespace namespace;
    private final List<Keys> keys = new ArrayList<>();
    private final List<MemorySegment> target;
    private final long[] tookNs = new long[GETS];

    Gets(KvtierClient client, Arena arena) {
      this.client = client;
      namespace = client.namespace("bench-down", BLOCK_BYTES, Map.of("purpose", "kvtier bench"));
      target = List.of(arena.allocate(BLOCK_BYTES, 64));
      for (int i = 0; i < BLOCKS; i++) {
        MemorySegment key = arena.allocate(BenchKeys.KEY_BYTES, 8);
        BenchKeys.put(key, 0, TAG, -1 - i);
        keys.add(Keys.wrap(key, BenchKeys.KEY_BYTES));
        if (!client.blocking().put(namespace, keys.get(i), target).blocks().all(Status.OK)) {
          throw new UncheckedIOException(new IOException("a block was not accepted"));
        }
      }
    }

    void run(Rounds into, String name) {
      for (int i = 0; i < GETS; i++) {
        long started = System.nanoTime();
        BatchResult result = client.blocking().get(namespace, keys.get(i % BLOCKS), target);
        tookNs[i] = System.nanoTime() - started;
        if (!result.blocks().all(Status.OK)) {
          throw new IllegalStateException("a block in memory was not found: " + result);
        }
      }
      into.add(name + "_p50", Statistics.percentile(tookNs, GETS, 0.5) / 1e3);
      into.add(name + "_p99", Statistics.percentile(tookNs, GETS, 0.99) / 1e3);
    }
  }
}
