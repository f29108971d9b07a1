package io.kvtier.daemon.doctor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.kvtier.daemon.config.ConfigException;
import io.kvtier.daemon.config.ConfigSource;
import io.kvtier.daemon.config.KvtierdConfig;
import io.kvtier.daemon.config.MachineMemory;
import io.kvtier.daemon.doctor.Finding.Level;
import io.kvtier.tiers.gpu.GpuProbe;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Each fault is provoked, and the doctor names it and its cure. */
@Timeout(value = 120, unit = TimeUnit.SECONDS)
final class DoctorTest {
  @TempDir private Path folder;

  private List<Finding> find(String... settings) {
    List<String> all =
        new ArrayList<>(
            List.of(
                "socket.path=" + folder.resolve("k.sock"),
                "host.bytes=64MiB",
                "ssd.bytes=0",
                "grpc.enabled=false",
                "http.enabled=false"));
    all.addAll(List.of(settings));
    try {
      return new Doctor(
              new ConfigSource(null, Map.of(), all).load().config(),
              0,
              () -> new GpuProbe.NoGpu("this is a test"))
          .findings();
    } catch (ConfigException e) {
      throw new IllegalArgumentException(e);
    }
  }

  private static Finding one(List<Finding> findings, String check) {
    return findings.stream()
        .filter(finding -> finding.check().equals(check))
        .findFirst()
        .orElseThrow(() -> new AssertionError("no " + check + " in " + findings));
  }

  private static void assertFails(Finding finding, String what, String cure) {
    assertEquals(Level.FAIL, finding.level(), finding.toString());
    assertTrue(finding.what().contains(what), finding.toString());
    assertTrue(finding.cure().contains(cure), finding.toString());
  }

  /** A running daemon has taken its own memory, but not that of the file that is looked at. */
  @Test
  void memory_moreThanIsAvailable_isWarnedOfBesideADaemonToo() throws ConfigException {
    long slab = 64L << 20;
    long host = MachineMemory.totalBytes() / slab * slab;
    assumeTrue(host > MachineMemory.availableBytes() + (128L << 20), "hardly any memory is taken");
    KvtierdConfig config =
        new ConfigSource(
                null,
                Map.of(),
                List.of("host.bytes=" + host + "B", "socket.path=" + folder.resolve("k")))
            .load()
            .config();
    for (long pid : new long[] {0, ProcessHandle.current().pid()}) {
      Finding memory = new MachineChecks(config, pid).memory();
      assertEquals(Level.WARN, memory.level(), memory.toString());
      assertTrue(memory.cure().contains("lower host.bytes"), memory.toString());
    }
  }

  /** A file system of its own, where this user may mount one. */
  private Path mounted(String options) {
    Path place = folder.resolve("mounted");
    try {
      Files.createDirectory(place);
      Process mount =
          new ProcessBuilder("mount", "-t", "tmpfs", "-o", options, "none", place.toString())
              .redirectErrorStream(true)
              .redirectOutput(ProcessBuilder.Redirect.DISCARD)
              .start();
      assumeTrue(mount.waitFor() == 0, "this user may not mount");
    } catch (IOException e) {
      assumeTrue(false, "there is no mount");
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
    return place;
  }

  private static void unmount(Path place) throws IOException, InterruptedException {
    assertEquals(0, new ProcessBuilder("umount", place.toString()).start().waitFor());
  }

  @Test
  void machineAsItShouldBe_nothingFails() throws IOException {
    Path objects = folder.resolve("objects");
    List<Finding> findings =
        find(
            "ssd.bytes=256MiB",
            "ssd.directory=" + folder.resolve("ssd"),
            "object.store=folder",
            "object.folder=" + objects);
    assertTrue(
        findings.stream().noneMatch(finding -> finding.level() == Level.FAIL), findings::toString);
    assertTrue(one(findings, "object store").what().contains("put, get, list and delete"), "store");
    try (var left = Files.walk(objects)) {
      assertEquals(List.of(), left.filter(Files::isRegularFile).toList(), "the probe stays");
    }
    assertFalse(Files.exists(folder.resolve("ssd")), "it makes no directory");
  }

  private static Finding openFiles(long limit, String... settings) throws ConfigException {
    return new MachineChecks(
            new ConfigSource(null, Map.of(), List.of(settings)).load().config(),
            0,
            new ProcessLimits(List.of("Max open files   " + limit + "   524288   files")))
        .openFiles();
  }

  @Test
  void openFiles_fewerThanThereMayBeConnections_areTold() throws ConfigException {
    // 256, 5 a session, 8,192 + 1,024 of gRPC, 2,048 of HTTP.
    String[] settings = {"ssd.bytes=0", "limits.sessions=1000", "grpc.enabled=true"};
    Finding few = openFiles(256 + 5000 + 9216 + 2048 - 1, settings);
    assertEquals(Level.WARN, few.level(), few.toString());
    assertTrue(few.what().contains("there may be 11264"), few.toString());
    assertTrue(few.what().contains("take 16520 in all"), few.toString());
    assertEquals(Level.PASS, openFiles(256 + 5000 + 9216 + 2048, settings).level());
    assertEquals(
        Level.PASS,
        openFiles(
                256 + 5000,
                "ssd.bytes=0",
                "limits.sessions=1000",
                "grpc.enabled=false",
                "http.enabled=false")
            .level());
  }

  @Test
  void ssdDirectory_thatIsAFile_fails() throws IOException {
    Path file = Files.createFile(folder.resolve("file"));
    List<Finding> findings = find("ssd.bytes=256MiB", "ssd.directory=" + file);
    assertFails(one(findings, "direct IO"), file.toString(), "choose another ssd.directory");
  }

  @Test
  void ssdDirectory_onAReadOnlyFileSystem_fails() throws IOException, InterruptedException {
    Path place = mounted("ro");
    try {
      List<Finding> findings = find("ssd.bytes=256MiB", "ssd.directory=" + place);
      assertFails(one(findings, "direct IO"), place.toString(), "mount it for writing");
    } finally {
      unmount(place);
    }
  }

  @Test
  void ssdDirectory_onASmallFileSystem_fails() throws IOException, InterruptedException {
    Path place = mounted("size=1m");
    try {
      List<Finding> findings = find("ssd.bytes=256MiB", "ssd.directory=" + place.resolve("ssd"));
      assertFails(one(findings, "disk space"), "share is 256 MiB", "lower ssd.bytes");
    } finally {
      unmount(place);
    }
  }

  @Test
  void ssdDirectories_thatShareAFileSystem_haveToFitTogether()
      throws IOException, InterruptedException {
    Path place = mounted("size=200m");
    try {
      List<Finding> findings =
          find(
              "ssd.bytes=256MiB",
              "ssd.file_bytes=64MiB",
              "ssd.directory=" + place.resolve("a") + "," + place.resolve("b"));
      assertFails(one(findings, "disk space"), "256 MiB, in 2 directories", "lower ssd.bytes");
    } finally {
      unmount(place);
    }
  }

  @Test
  void sharedMemory_full_isWarnedOf() throws IOException, InterruptedException {
    Path place = mounted("size=1m");
    try {
      Finding finding = one(find("host.directory=" + place.resolve("x")), "host.directory");
      assertEquals(Level.WARN, finding.level(), finding.toString());
      assertTrue(finding.cure().contains("--shm-size"), finding.toString());
    } finally {
      unmount(place);
    }
  }

  @Test
  void hostTier_largerThanTheMachine_fails() {
    assertFails(
        one(find("host.bytes=512TiB"), "memory"), "host.bytes is 512 TiB", "lower host.bytes");
  }

  @Test
  void socket_inNoFolder_fails() {
    Path path = folder.resolve("none/k.sock");
    assertFails(one(find("socket.path=" + path), "socket"), path.toString(), "make '");
  }

  @Test
  void grpc_thatIsOff_saysHowToSwitchItOn() {
    Finding finding = one(find(), "gRPC");

    assertEquals(Level.PASS, finding.level(), finding.toString());
    assertTrue(finding.what().contains("grpc.enabled=true"), finding.toString());
  }

  @Test
  void grpc_withoutTokens_saysWhomItLetsIn() {
    Finding finding = one(find("grpc.enabled=true"), "gRPC");

    assertEquals(Level.WARN, finding.level(), finding.toString());
    assertTrue(finding.what().contains("every user of this machine"), finding.toString());
    assertTrue(finding.cure().contains("access.tokens"), finding.toString());
  }

  @Test
  void grpcPort_thatIsTaken_fails() throws IOException {
    try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      assertFails(
          one(find("grpc.enabled=true", "grpc.port=" + taken.getLocalPort()), "gRPC port"),
          String.valueOf(taken.getLocalPort()),
          "grpc.port");
    }
  }

  @Test
  void httpPort_thatIsTaken_fails() throws IOException {
    try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      assertFails(
          one(find("http.enabled=true", "http.port=" + taken.getLocalPort()), "HTTP port"),
          String.valueOf(taken.getLocalPort()),
          "http.port");
    }
  }

  @Test
  void objectFolder_thatIsAFile_fails() throws IOException {
    Path file = Files.createFile(folder.resolve("file"));
    assertFails(
        one(find("object.store=folder", "object.folder=" + file), "object store"),
        file.toString(),
        "object.store");
  }

  private List<Finding> findS3(int port) {
    System.setProperty("aws.accessKeyId", "an-id");
    System.setProperty("aws.secretAccessKey", "a-key");
    try {
      return find(
          "object.store=s3", "object.s3.bucket=b", "object.s3.endpoint=http://127.0.0.1:" + port);
    } finally {
      System.clearProperty("aws.accessKeyId");
      System.clearProperty("aws.secretAccessKey");
    }
  }

  @Test
  void s3_wrongPort_fails() throws IOException {
    int port;
    try (ServerSocket closed = new ServerSocket(0)) {
      port = closed.getLocalPort();
    }
    List<Finding> findings = findS3(port);
    assertFails(one(findings, "object store's clock"), "127.0.0.1:" + port, "object.s3.endpoint");
    assertFails(one(findings, "object store"), "a put failed", "object.s3.endpoint");
  }

  @Test
  void s3_clockAnHourOffAndNoRights_fails() throws IOException {
    String date =
        DateTimeFormatter.RFC_1123_DATE_TIME.format(
            ZonedDateTime.now(ZoneOffset.UTC).minus(Duration.ofHours(1)));
    try (ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
      Thread.ofVirtual().start(() -> refuseAll(server, date));
      List<Finding> findings = findS3(server.getLocalPort());
      assertFails(one(findings, "object store's clock"), "differs from it by 36", "set the clock");
      assertFails(one(findings, "object store"), "a put failed: the store refuses", "credentials");
    }
  }

  /** Answers every request with 403. */
  private static void refuseAll(ServerSocket server, String date) {
    String answer =
        "HTTP/1.1 403 Forbidden\r\nDate: "
            + date
            + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    while (!server.isClosed()) {
      try (Socket socket = server.accept()) {
        byte[] read = new byte[65536];
        if (socket.getInputStream().read(read) > 0) {
          socket.getOutputStream().write(answer.getBytes(StandardCharsets.US_ASCII));
          socket.getOutputStream().flush();
        }
      } catch (IOException e) {
        if (!server.isClosed() && !server.isBound()) {
          throw new UncheckedIOException(e);
        }
      }
    }
  }

  @Test
  void limitsOfTheProcess_tooLow_areNamedAndEndWith1() throws IOException, InterruptedException {
    Path prlimit = Path.of("/usr/bin/prlimit");
    assumeTrue(Files.isExecutable(prlimit), "there is no prlimit");
    Path bad = Files.writeString(folder.resolve("k.yaml"), "hots:\n  bytes: 1GiB\n");
    String classPath =
        System.getProperty("surefire.test.class.path", System.getProperty("java.class.path", ""));
    Process process =
        new ProcessBuilder(
                prlimit.toString(),
                "--nofile=200:200",
                "--memlock=65536:65536",
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--enable-native-access=ALL-UNNAMED",
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-cp",
                classPath,
                "io.kvtier.daemon.Kvtierd",
                "doctor",
                "--json",
                "--config",
                bad.toString())
            .redirectError(ProcessBuilder.Redirect.DISCARD)
            .start();
    String out = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(1, process.waitFor(), out);
    JsonArray findings = new JsonArray(out.substring(out.indexOf("[{")));
    assertEquals("fail", level(findings, "configuration"));
    assertTrue(out.contains("did you mean 'host'?"), out);
    assertEquals("fail", level(findings, "open files"));
    assertTrue(out.contains("LimitNOFILE="), out);
    assertEquals("warn", level(findings, "memlock"));
    assertTrue(out.contains("LimitMEMLOCK=infinity"), out);
  }

  private static String level(JsonArray findings, String check) {
    for (Object each : findings) {
      if (each instanceof JsonObject finding && finding.getString("check").equals(check)) {
        return finding.getString("level");
      }
    }
    throw new AssertionError("no " + check + " in " + findings.encode());
  }
}
