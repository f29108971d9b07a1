package io.kvtier.bench;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentialsProvider;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;

/** s3proxy in a process of its own, its objects in its memory. */
final class S3ProxyProcess implements AutoCloseable {
  static final String BUCKET = "bench";
  static final String IDENTITY = "bench";
  static final String CREDENTIAL = "secret";
  private static final long START_NS_MAX = TimeUnit.SECONDS.toNanos(60);

  private final Process process;
  private final Path folder;
  private final int port;

  private S3ProxyProcess(Process process, Path folder, int port) {
    this.process = process;
    this.folder = folder;
    this.port = port;
  }

  static S3ProxyProcess start() throws IOException {
    int port = freePort();
    Path folder = Files.createTempDirectory("kvtier-s3proxy");
    Path properties =
        Files.writeString(
            folder.resolve("s3proxy.conf"),
            """
            s3proxy.endpoint=http://127.0.0.1:%d
            s3proxy.authorization=aws-v2-or-v4
            s3proxy.identity=%s
            s3proxy.credential=%s
            jclouds.provider=transient-nio2
            jclouds.identity=x
            jclouds.credential=x
            """
                .formatted(port, IDENTITY, CREDENTIAL));
    Path logging =
        Files.writeString(
            folder.resolve("logback.xml"), "<configuration><root level=\"OFF\"/></configuration>");
    Process process =
        new ProcessBuilder(
                List.of(
                    System.getProperty("java.home") + "/bin/java",
                    "-Xmx2g",
                    "-Dlogback.configurationFile=" + logging,
                    "-cp",
                    System.getProperty("java.class.path"),
                    "org.gaul.s3proxy.Main",
                    "--properties",
                    properties.toString()))
            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    S3ProxyProcess server = new S3ProxyProcess(process, folder, port);
    server.awaitStart();
    return server;
  }

  private static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    }
  }

  private void awaitStart() throws IOException {
    long begun = System.nanoTime();
    while (true) {
      try (Socket socket = new Socket()) {
        socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
        return;
      } catch (IOException e) {
        if (!process.isAlive() || System.nanoTime() - begun > START_NS_MAX) {
          close();
          throw new IOException("s3proxy did not start on port " + port, e);
        }
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(50));
      }
    }
  }

  URI endpoint() {
    return URI.create("http://127.0.0.1:" + port);
  }

  AwsCredentialsProvider credentials() {
    return StaticCredentialsProvider.create(AwsBasicCredentials.create(IDENTITY, CREDENTIAL));
  }

  @Override
  public void close() throws IOException {
    process.destroyForcibly();
    for (String name : List.of("s3proxy.conf", "logback.xml")) {
      Files.deleteIfExists(folder.resolve(name));
    }
    Files.deleteIfExists(folder);
  }
}
