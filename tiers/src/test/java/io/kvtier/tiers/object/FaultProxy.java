package io.kvtier.tiers.object;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A TCP proxy that does wrong on demand, between a client and a server of the loopback. Faults are
 * of what the server answers; a new fault is for the connections from then on, and for the answers
 * on the ones that are open.
 */
public final class FaultProxy implements AutoCloseable {
  /** What it does. */
  public sealed interface Fault {
    /** Nothing. */
    record None() implements Fault {}

    /** Lets so many bytes of an answer through, then resets the connection. */
    record Reset(long afterBytes) implements Fault {}

    /** Lets so many bytes of an answer through, then ends the connection in order. */
    record Truncate(long afterBytes) implements Fault {}

    /** Lets so many bytes of an answer through, then nothing, and keeps the connection. */
    record Stall(long afterBytes) implements Fault {}

    /** So many bytes at a time, with a rest after each. */
    record Drip(int bytes, long restMs) implements Fault {}

    /** Flips a bit of the byte at this offset of an answer. */
    record Corrupt(long offset) implements Fault {}

    /** Waits before each answer. */
    record Delay(long ms) implements Fault {}

    /** Answers itself, and asks nobody. */
    record Answer(int status, String headers) implements Fault {}
  }

  public static final Fault NONE = new Fault.None();

  private final ServerSocket listener;
  private final int target;
  private final Set<Socket> open = ConcurrentHashMap.newKeySet();
  private final AtomicInteger connections = new AtomicInteger();
  private volatile Fault fault = NONE;

  public FaultProxy(int target) throws IOException {
    this.target = target;
    listener = new ServerSocket(0, 256, InetAddress.getLoopbackAddress());
    Thread.ofVirtual().start(this::accept);
  }

  public int port() {
    return listener.getLocalPort();
  }

  /** How many connections there have been. */
  public int connections() {
    return connections.get();
  }

  public void set(Fault wanted) {
    fault = wanted;
  }

  private void accept() {
    while (!listener.isClosed()) {
      try {
        Socket client = listener.accept();
        connections.incrementAndGet();
        open.add(client);
        Socket server = new Socket();
        open.add(server);
        server.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), target));
        Progress progress = new Progress();
        Thread.ofVirtual().start(() -> forward(client, server, progress));
        Thread.ofVirtual().start(() -> answer(server, client, progress));
      } catch (IOException e) {
        // Closed, or the server is down: the client's connection ends with its next use.
        if (!listener.isClosed()) {
          closeAll();
        }
      }
    }
  }

  /** How far the present answer is; a new request begins the next one. */
  private static final class Progress {
    private final AtomicLong bytes = new AtomicLong();
  }

  private void forward(Socket client, Socket server, Progress progress) {
    byte[] buffer = new byte[64 << 10];
    try (client;
        server) {
      InputStream in = client.getInputStream();
      OutputStream out = server.getOutputStream();
      for (int count = in.read(buffer); count >= 0; count = in.read(buffer)) {
        progress.bytes.set(0);
        if (fault instanceof Fault.Answer(int status, String headers)) {
          String text =
              "HTTP/1.1 "
                  + status
                  + " x\r\n"
                  + headers
                  + "Content-Length: 0\r\nConnection: close\r\n\r\n";
          client.getOutputStream().write(text.getBytes(StandardCharsets.US_ASCII));
          client.shutdownOutput();
          // What is unread when a socket is closed makes the close a reset.
          in.transferTo(OutputStream.nullOutputStream());
          return;
        }
        out.write(buffer, 0, count);
      }
    } catch (IOException e) {
      // One of both is gone; the other is closed with it.
    } finally {
      open.remove(client);
      open.remove(server);
    }
  }

  private void answer(Socket server, Socket client, Progress progress) {
    byte[] buffer = new byte[64 << 10];
    try {
      InputStream in = server.getInputStream();
      OutputStream out = client.getOutputStream();
      for (int count = in.read(buffer); count >= 0; count = in.read(buffer)) {
        if (!pass(buffer, count, progress, client, out)) {
          return;
        }
        progress.bytes.addAndGet(count);
      }
      client.shutdownOutput();
    } catch (IOException e) {
      // As above.
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Returns false when nothing more may come on this connection. */
  private boolean pass(byte[] buffer, int count, Progress progress, Socket client, OutputStream out)
      throws IOException, InterruptedException {
    long before = progress.bytes.get();
    switch (fault) {
      case Fault.None _, Fault.Answer _ -> out.write(buffer, 0, count);
      case Fault.Reset(long after) -> {
        if (before + count > after) {
          out.write(buffer, 0, (int) Math.max(0, after - before));
          client.setSoLinger(true, 0);
          client.close();
          return false;
        }
        out.write(buffer, 0, count);
      }
      case Fault.Truncate(long after) -> {
        if (before + count > after) {
          out.write(buffer, 0, (int) Math.max(0, after - before));
          client.shutdownOutput();
          return false;
        }
        out.write(buffer, 0, count);
      }
      case Fault.Stall(long after) -> {
        out.write(buffer, 0, Math.clamp(after - before, 0, count));
        return before + count <= after;
      }
      case Fault.Drip(int bytes, long restMs) -> {
        for (int at = 0; at < count; at += bytes) {
          out.write(buffer, at, Math.min(bytes, count - at));
          Thread.sleep(restMs);
        }
      }
      case Fault.Corrupt(long offset) -> {
        if (offset >= before && offset < before + count) {
          buffer[(int) (offset - before)] ^= 0x10;
        }
        out.write(buffer, 0, count);
      }
      case Fault.Delay(long ms) -> {
        if (before == 0) {
          Thread.sleep(ms);
        }
        out.write(buffer, 0, count);
      }
    }
    return true;
  }

  private void closeAll() {
    for (Socket socket : open) {
      try {
        socket.close();
      } catch (IOException e) {
        // It is gone.
      }
    }
    open.clear();
  }

  @Override
  public void close() throws IOException {
    listener.close();
    closeAll();
  }
}
