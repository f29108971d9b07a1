package io.kvtier.bench;

import io.kvtier.client.RemoteClient;
import io.kvtier.protocol.access.Role;
import io.kvtier.protocol.access.Token;
import io.kvtier.protocol.access.TokenLine;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * The clients over gRPC with TLS and a token, against {@link BareGrpc}: each language is compared
 * with calls of its library of gRPC.
 */
final class RemoteScenario {
  private static final int BLOCK_BYTES = 1 << 20;
  private static final int BATCH = 8;
  private static final int BLOCKS = 128;
  private static final long HOST_BYTES = 1L << 30;

  private final Setup setup;

  RemoteScenario(Setup setup) {
    this.setup = setup;
  }

  void run(Report report) throws Exception {
    Path folder = Files.createTempDirectory("kvtier-bench-remote-");
    try {
      run(report, folder);
    } finally {
      List<Path> left;
      try (Stream<Path> paths = Files.walk(folder)) {
        left = paths.sorted(Comparator.reverseOrder()).toList();
      }
      for (Path path : left) {
        Files.delete(path);
      }
    }
  }

  private void run(Report report, Path folder) throws Exception {
    ServerCertificate certificate = ServerCertificate.in(folder);
    Path tokens = folder.resolve("tokens");
    Path token = folder.resolve("token");
    makeToken(tokens, token);
    Rounds rounds;
    try (DaemonProcess daemon =
            new DaemonProcess(
                setup.root(),
                HOST_BYTES,
                "grpc.enabled=true",
                "grpc.port=0",
                "tls.certificate=" + certificate.certificate(),
                "tls.key=" + certificate.key(),
                "access.tokens=" + tokens);
        BareGrpc bare = new BareGrpc(certificate);
        BareGrpcCopies bareJava = new BareGrpcCopies(bare, certificate, BLOCK_BYTES, BATCH);
        RemoteClient client =
            RemoteClient.builder("grpcs://" + daemon.grpcAddress())
                .authority(certificate.certificate())
                .tokenFile(token)
                .timeout(Duration.ofSeconds(30))
                .build();
        RemoteCopies java = new RemoteCopies(client, BLOCK_BYTES, BLOCKS, BATCH);
        Worker python = setup.startPython()) {
      var _ =
          python.ask(
              "open grpcs://"
                  + daemon.grpcAddress()
                  + " "
                  + token
                  + " "
                  + certificate.certificate());
      var _ = python.ask("fill " + BLOCK_BYTES + " " + BLOCKS + " " + BATCH);
      var _ = python.ask("open_bare 127.0.0.1:" + bare.port() + " " + certificate.certificate());
      long sliceNs = setup.sliceNs();
      long sliceMs = sliceNs / 1_000_000;
      rounds =
          Rounds.measure(
              2 * setup.warmUps(),
              setup.rounds(),
              into -> {
                into.add("bare_java_get", bareJava.getGbps(sliceNs));
                into.add("java_get", java.getGbps(sliceNs));
                into.add("bare_java_put", bareJava.putGbps(sliceNs));
                into.add("java_put", java.putGbps(sliceNs));
                into.add("bare_python_get", python.ask("get_bare " + sliceMs, "gbps"));
                into.add("python_get", python.ask("get " + sliceMs, "gbps"));
                into.add("bare_python_put", python.ask("put_bare " + sliceMs, "gbps"));
                into.add("python_put", python.ask("put " + sliceMs, "gbps"));
              });
    }
    for (String language : new String[] {"java", "python"}) {
      for (String way : new String[] {"get", "put"}) {
        report.add(
            new Row(
                "remote_" + language + "_" + way + "_1MiB_gbps",
                rounds.median(language + "_" + way),
                "GB/s",
                "bare gRPC of the same bytes with TLS, " + BATCH + " blocks a call",
                rounds.median("bare_" + language + "_" + way)));
      }
    }
  }

  private static void makeToken(Path tokens, Path token) throws IOException {
    SecureRandom random = new SecureRandom();
    Token made = Token.make(random);
    Files.writeString(
        tokens, TokenLine.of(made, "bench", Role.WRITE, "", null, random).text() + "\n");
    Files.writeString(token, made.secretText());
    for (Path file : List.of(tokens, token)) {
      Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
    }
  }
}
