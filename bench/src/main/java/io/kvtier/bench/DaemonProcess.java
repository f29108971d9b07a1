package io.kvtier.bench;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.kvtier.client.KvtierClient;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** A daemon of its own for one scenario: enough host memory that nothing is evicted, and no SSD. */
final class DaemonProcess implements AutoCloseable {
  private static final int STOP_TIMEOUT_S = 10;
  private static final Pattern GRPC_ADDRESS = Pattern.compile("gRPC on ([^ ,;]+:[0-9]+)");

  private final Path folder;
  private final Path socket;
  private final List<String> command = new ArrayList<>();
  private final String javaFlags;
  private Process process;
  private String readyLine;

  /** Starts one and waits until it is ready. */
  DaemonProcess(Path root, long hostBytes, String... settings) throws IOException {
    this(root, hostBytes, "", List.of(settings));
  }

  /** The same, with further flags of its JVM. */
  DaemonProcess(Path root, long hostBytes, String javaFlags, List<String> settings)
      throws IOException {
    this.javaFlags = javaFlags;
    folder = Files.createTempDirectory("kvtier-bench-");
    socket = folder.resolve("kvtier.sock");
    command.add(root.resolve("scripts/kvtierd").toString());
    command.add("--socket");
    command.add(socket.toString());
    List<String> all =
        new ArrayList<>(
            List.of(
                "host.bytes=" + hostBytes + "B",
                "host.keep=0",
                "ssd.bytes=0",
                "ssd.directory=" + folder.resolve("ssd"),
                "grpc.enabled=false",
                "http.enabled=false"));
    all.addAll(settings);
    for (String setting : all) {
      command.add("--set");
      command.add(setting);
    }
    process = launch();
    readyLine = awaitReady();
  }

  private Process launch() throws IOException {
    ProcessBuilder builder =
        new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
    builder.environment().put("AWS_ACCESS_KEY_ID", S3ProxyProcess.IDENTITY);
    builder.environment().put("AWS_SECRET_ACCESS_KEY", S3ProxyProcess.CREDENTIAL);
    if (!javaFlags.isEmpty()) {
      builder
          .environment()
          .merge("KVTIERD_JAVA_OPTS", javaFlags, (one, other) -> one + ' ' + other);
    }
    return builder.start();
  }

  private String awaitReady() throws IOException {
    BufferedReader output = process.inputReader(UTF_8);
    String line = output.readLine();
    while (line != null && !line.startsWith("kvtierd ready")) {
      line = output.readLine();
    }
    if (line == null) {
      close();
      throw new IOException("the daemon did not become ready; its reason is above");
    }
    return line;
  }

  /** Ends it with SIGKILL. */
  void kill() {
    process.destroyForcibly();
  }

  /** Starts another in its place, and waits until that is ready. */
  void restart() throws IOException {
    process = launch();
    readyLine = awaitReady();
  }

  Path socket() {
    return socket;
  }

  /** Where it serves gRPC, as {@code HOST:PORT}. */
  String grpcAddress() {
    Matcher matcher = GRPC_ADDRESS.matcher(readyLine);
    if (!matcher.find()) {
      throw new IllegalStateException("the daemon does not say where it serves gRPC: " + readyLine);
    }
    return matcher.group(1);
  }

  long pid() {
    return process.pid();
  }

  /** A client of this daemon; fails when there is no session. */
  KvtierClient connect() {
    KvtierClient client =
        KvtierClient.builder().socket(socket).name("bench").timeout(Duration.ofSeconds(30)).build();
    try {
      if (client.connect().pid() != pid()) {
        throw new IllegalStateException("another daemon answers at " + socket);
      }
      return client;
    } catch (RuntimeException e) {
      client.close();
      throw e;
    }
  }

  @Override
  public void close() throws IOException {
    process.destroy();
    try {
      if (!process.waitFor(STOP_TIMEOUT_S, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    } catch (InterruptedException e) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
    deleteFolder();
  }

  /** With what the daemon leaves beside its socket. */
  private void deleteFolder() throws IOException {
    List<Path> left;
    try (Stream<Path> paths = Files.walk(folder)) {
      left = paths.sorted(Comparator.reverseOrder()).toList();
    }
    for (Path path : left) {
      Files.delete(path);
    }
  }
}
