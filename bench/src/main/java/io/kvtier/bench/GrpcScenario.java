package io.kvtier.bench;

import io.kvtier.protocol.v1.KeysRequest;
import io.kvtier.protocol.v1.PingRequest;

/** The remote interface over loopback, against bare TCP that carries as many bytes each way. */
final class GrpcScenario {
  /** A block size, and how many blocks go into one call. */
  private record Size(String name, int bytes, int batch) {}

  private static final Size[] SIZES = {
    new Size("64KiB", 64 << 10, 64),
    new Size("256KiB", 256 << 10, 16),
    new Size("1MiB", 1 << 20, 8),
    new Size("4MiB", 4 << 20, 4)
  };
  private static final int WORKING_SET_BYTES = 128 << 20;
  private static final int LOOKUP_BLOCK_BYTES = 4096;
  private static final int LOOKUP_KEYS = 256;
  private static final long HOST_BYTES = 1L << 30;
  // HTTP/2's and gRPC's headers of a small call, roughly.
  private static final int ENVELOPE_BYTES = 64;

  private final Setup setup;
  private final Sampler sampler = new Sampler();

  GrpcScenario(Setup setup) {
    this.setup = setup;
  }

  void run(Report report) throws Exception {
    try (DaemonProcess daemon =
            new DaemonProcess(setup.root(), HOST_BYTES, "grpc.enabled=true", "grpc.port=0");
        TcpEcho tcp = new TcpEcho();
        GrpcCopies grpc = new GrpcCopies(daemon.grpcAddress())) {
      calls(report, tcp, grpc);
      for (Size size : SIZES) {
        copies(report, size, tcp, grpc);
      }
    }
  }

  private void calls(Report report, TcpEcho tcp, GrpcCopies grpc) throws Exception {
    grpc.fill(LOOKUP_BLOCK_BYTES, LOOKUP_KEYS, LOOKUP_KEYS);
    KeysRequest request = grpc.lookupRequest(LOOKUP_KEYS);
    int pingBytes = PingRequest.getDefaultInstance().getSerializedSize() + ENVELOPE_BYTES;
    int requestBytes = request.getSerializedSize() + ENVELOPE_BYTES;
    int responseBytes = grpc.lookup(request).getSerializedSize() + ENVELOPE_BYTES;
    long sliceNs = setup.sliceNs();
    Rounds rounds =
        Rounds.measure(
            setup.warmUps(),
            setup.rounds(),
            into -> {
              into.add(
                  "tcp_pingpong_p50_us",
                  sampler.time(sliceNs, () -> tcp.exchange(pingBytes, pingBytes)).us(0.5));
              into.add("grpc_ping_p50_us", sampler.time(sliceNs, grpc::ping).us(0.5));
              into.add("grpc_ping_p99_us", sampler.us(0.99));
              into.add(
                  "tcp_lookup",
                  sampler.time(sliceNs, () -> tcp.exchange(requestBytes, responseBytes)).us(0.5));
              into.add(
                  "grpc_lookup_256_p50_us",
                  sampler
                      .time(
                          sliceNs,
                          () -> {
                            var _ = grpc.lookup(request);
                          })
                      .us(0.5));
            });
    report.add(Row.plain("tcp_pingpong_p50_us", rounds.median("tcp_pingpong_p50_us"), "us"));
    report.add(rounds.row("grpc_ping_p50_us", "us", "tcp_pingpong_p50_us"));
    report.add(rounds.row("grpc_ping_p99_us", "us", "tcp_pingpong_p50_us"));
    report.add(
        rounds.row(
            "grpc_lookup_256_p50_us",
            "us",
            "tcp round trip of " + requestBytes + " and " + responseBytes + " bytes",
            "tcp_lookup",
            us -> us));
  }

  private void copies(Report report, Size size, TcpEcho tcp, GrpcCopies grpc) throws Exception {
    grpc.fill(size.bytes(), WORKING_SET_BYTES / size.bytes(), size.batch());
    int callBytes = size.bytes() * size.batch();
    long sliceNs = setup.sliceNs();
    Rounds rounds =
        Rounds.measure(
            setup.warmUps(),
            setup.rounds(),
            into -> {
              into.add("tcp_get", tcpGbps(tcp, sliceNs, ENVELOPE_BYTES, callBytes));
              into.add("grpc_get", grpc.getGbps(sliceNs));
              into.add("tcp_put", tcpGbps(tcp, sliceNs, callBytes, ENVELOPE_BYTES));
              into.add("grpc_put", grpc.putGbps(sliceNs));
            });
    for (String way : new String[] {"get", "put"}) {
      report.add(
          new Row(
              "grpc_" + way + "_" + size.name() + "_gbps",
              rounds.median("grpc_" + way),
              "GB/s",
              "bare TCP of the same bytes, " + size.batch() + " blocks a call",
              rounds.median("tcp_" + way)));
    }
  }

  private static double tcpGbps(TcpEcho tcp, long durationNs, int requestBytes, int responseBytes)
      throws Exception {
    long bytes = 0;
    long started = System.nanoTime();
    long took = 0;
    while (took < durationNs) {
      tcp.exchange(requestBytes, responseBytes);
      bytes += requestBytes + (long) responseBytes - ENVELOPE_BYTES;
      took = System.nanoTime() - started;
    }
    return bytes / (double) took;
  }
}
