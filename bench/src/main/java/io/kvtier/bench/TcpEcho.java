package io.kvtier.bench;

import java.io.EOFException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.util.List;

/**
 * Questions and answers of given lengths over a bare loopback connection to another process: what a
 * remote procedure call must cost before anybody reads a message.
 */
final class TcpEcho implements AutoCloseable {
  private static final int HEADER_BYTES = 8;
  private static final int BUFFER_BYTES = 1 << 20;

  private final Worker peer;
  private final SocketChannel connection;
  private final ByteBuffer buffer = ByteBuffer.allocateDirect(BUFFER_BYTES);

  /** Starts the other process and connects to it. */
  TcpEcho() throws IOException {
    List<String> command =
        List.of(
            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",
            "-Xmx64m",
            "-cp",
            System.getProperty("java.class.path"),
            Bench.class.getName(),
            "tcp-peer");
    peer = new Worker(command);
    int port = (int) peer.answer("port");
    connection = SocketChannel.open(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
    connection.setOption(StandardSocketOptions.TCP_NODELAY, true);
  }

  /** Sends that many bytes, of which the first few are a header, and reads that many back. */
  void exchange(int requestBytes, int responseBytes) throws IOException {
    int sent = Math.max(requestBytes, HEADER_BYTES);
    buffer.clear().putInt(sent).putInt(responseBytes);
    send(connection, buffer, sent);
    receive(connection, buffer, responseBytes);
  }

  /** The other process: answers one connection until it ends. */
  static void serve() throws IOException {
    try (ServerSocketChannel listener = ServerSocketChannel.open()) {
      var _ = listener.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
      System.out.println("ok port=" + listener.socket().getLocalPort());
      try (SocketChannel connection = listener.accept()) {
        connection.setOption(StandardSocketOptions.TCP_NODELAY, true);
        ByteBuffer buffer = ByteBuffer.allocateDirect(BUFFER_BYTES);
        while (true) {
          buffer.clear().limit(HEADER_BYTES);
          while (buffer.hasRemaining()) {
            if (connection.read(buffer) < 0) {
              return;
            }
          }
          int requestBytes = buffer.getInt(0);
          int responseBytes = buffer.getInt(4);
          receive(connection, buffer, requestBytes - HEADER_BYTES);
          buffer.clear();
          send(connection, buffer, responseBytes);
        }
      }
    }
  }

  /** Sends what the buffer holds from its start, over and over where it is shorter. */
  private static void send(SocketChannel connection, ByteBuffer buffer, int bytes)
      throws IOException {
    int left = bytes;
    while (left > 0) {
      buffer.clear().limit(Math.min(left, buffer.capacity()));
      while (buffer.hasRemaining()) {
        left -= connection.write(buffer);
      }
    }
  }

  private static void receive(SocketChannel connection, ByteBuffer buffer, int bytes)
      throws IOException {
    int left = bytes;
    while (left > 0) {
      buffer.clear().limit(Math.min(left, buffer.capacity()));
      int read = connection.read(buffer);
      if (read < 0) {
        throw new EOFException("the other process ended in the middle of a message");
      }
      left -= read;
    }
  }

  @Override
  public void close() throws IOException {
    connection.close();
    peer.close();
  }
}
