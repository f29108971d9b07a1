package io.kvtier.daemon.doctor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.ConfigException;
import io.kvtier.daemon.config.ConfigSource;
import io.kvtier.daemon.doctor.Finding.Level;
import io.kvtier.daemon.gpu.FileGpu;
import io.kvtier.tiers.gpu.Gpu;
import io.kvtier.tiers.gpu.GpuDevice;
import io.kvtier.tiers.gpu.GpuDriver;
import io.kvtier.tiers.gpu.GpuException;
import io.kvtier.tiers.gpu.GpuLink;
import io.kvtier.tiers.gpu.GpuProbe;
import io.kvtier.tiers.gpu.IpcHandle;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What the doctor says of GPUs, of which there are none. */
@Timeout(value = 120, unit = TimeUnit.SECONDS)
final class GpuChecksTest {
  private static final Path OWN = Path.of("/proc/self");

  @TempDir private Path processes;
  private Path folder = Path.of("");

  @BeforeEach
  void makeFolder() throws IOException {
    // Handles are short.
    folder = Files.createTempDirectory(Path.of("/dev/shm"), "kvd");
  }

  @AfterEach
  void removeFolder() throws IOException {
    Files.deleteIfExists(folder.resolve("lent"));
    Files.delete(folder);
  }

  /** Lends what it is told to. */
  private record FakeLender(Function<GpuDevice, Answer> lending) implements Lender {
    @Override
    public Answer lend(GpuDevice device) {
      return lending.apply(device);
    }

    @Override
    public void close() {}
  }

  private static List<Finding> find(GpuProbe probe, Lender lender, Path daemon, Path own) {
    try {
      return new GpuChecks(
              new ConfigSource(null, Map.of(), List.of("gpu.enabled=auto"))
                  .load()
                  .config()
                  .copies()
                  .gpu(),
              () -> probe,
              () -> lender,
              daemon,
              own)
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

  private Finding ipc(byte[] lent) throws IOException {
    Path file = folder.resolve("lent");
    Files.write(file, lent);
    IpcHandle handle = IpcHandle.parse(FileGpu.handle(file));
    FileGpu gpu = new FileGpu(folder, 0);
    List<Finding> findings =
        find(
            new GpuProbe.Found(gpu), new FakeLender(_ -> new Lender.Answer.Lent(handle)), OWN, OWN);
    assertEquals(0, gpu.mappings(), "it stays open");
    return one(findings, "GPU 0 IPC");
  }

  @Test
  void ipc_anothersMemoryCanBeRead_passes() throws IOException {
    assertEquals(Level.PASS, ipc(GpuMemory.pattern()).level());
  }

  @Test
  void ipc_otherBytesAreThere_fails() throws IOException {
    byte[] other = GpuMemory.pattern();
    other[GpuMemory.BYTES - 1]++;
    Finding finding = ipc(other);
    assertEquals(Level.FAIL, finding.level(), finding.toString());
    assertTrue(finding.what().contains("other bytes"), finding.toString());
  }

  @Test
  void ipc_handleCannotBeOpened_failsWithTheDriversReason() {
    IpcHandle handle = IpcHandle.parse(FileGpu.handle(Path.of("own")));
    Finding finding =
        one(
            find(
                new GpuProbe.Found(new FileGpu(folder, 0)),
                new FakeLender(_ -> new Lender.Answer.Lent(handle)),
                OWN,
                OWN),
            "GPU 0 IPC");
    assertEquals(Level.FAIL, finding.level(), finding.toString());
    assertTrue(finding.what().contains("CUDA_ERROR_INVALID_CONTEXT"), finding.toString());
    assertTrue(finding.cure().contains("--ipc=host"), finding.toString());
  }

  /** Several GPUs of which none has memory left. */
  private record Full(int count, Map<String, GpuLink> links) implements GpuDriver {
    @Override
    public String version() {
      return "full";
    }

    @Override
    public List<GpuDevice> devices() {
      return java.util.stream.IntStream.range(0, count)
          .mapToObj(i -> new GpuDevice(i, "GPU-" + i, "0000:0" + i + ":00.0", "full", 1, 1))
          .toList();
    }

    @Override
    public Gpu open(GpuDevice device) {
      throw new GpuException("cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY", 2);
    }

    @Override
    public GpuLink link(GpuDevice from, GpuDevice to) {
      GpuLink link = links.get(from.ordinal() + "-" + to.ordinal());
      if (link == null) {
        throw new GpuException("cuDeviceCanAccessPeer: CUDA_ERROR_INVALID_DEVICE", 101);
      }
      return link;
    }
  }

  @Test
  void ipc_noRoomToTry_warns() {
    IpcHandle handle = new IpcHandle(new byte[IpcHandle.BYTES]);
    for (Lender.Answer answer :
        List.of(new Lender.Answer.Lent(handle), new Lender.Answer.Refused("OUT_OF_MEMORY"))) {
      List<Finding> findings =
          find(new GpuProbe.Found(new Full(1, Map.of())), new FakeLender(_ -> answer), OWN, OWN);
      Finding finding = one(findings, "GPU 0 IPC");
      assertEquals(Level.WARN, finding.level(), finding.toString());
      assertTrue(finding.what().contains("OUT_OF_MEMORY"), finding.toString());
      assertTrue(finding.cure().contains("600 MiB"), finding.toString());
      assertTrue(
          findings.stream().noneMatch(other -> other.check().contains("peers")), "of one alone");
    }
  }

  @Test
  void peers_areToldByHowTheyAreReached() {
    GpuDriver driver =
        new Full(
            3,
            Map.of(
                "0-1",
                GpuLink.NVLINK,
                "0-2",
                GpuLink.NVLINK,
                "1-0",
                GpuLink.NVLINK,
                "1-2",
                GpuLink.PCIE,
                "2-0",
                GpuLink.NONE));
    List<Finding> findings =
        find(
            new GpuProbe.Found(driver),
            new FakeLender(_ -> new Lender.Answer.Refused("no")),
            OWN,
            OWN);
    assertEquals(
        Finding.pass("GPU 0 peers", "reaches over NVLink 1, 2"), one(findings, "GPU 0 peers"));
    assertEquals(
        Finding.pass("GPU 1 peers", "reaches over NVLink 0; reaches over PCIe 2"),
        one(findings, "GPU 1 peers"));
    Finding untold = one(findings, "GPU 2 peers");
    assertEquals(Level.WARN, untold.level());
    assertTrue(untold.what().contains("CUDA_ERROR_INVALID_DEVICE"), untold.toString());
    Finding apart =
        one(
            find(
                new GpuProbe.Found(new Full(2, Map.of("0-1", GpuLink.NONE, "1-0", GpuLink.PCIE))),
                new FakeLender(_ -> new Lender.Answer.Refused("no")),
                OWN,
                OWN),
            "GPU 0 peers");
    assertEquals(Level.WARN, apart.level());
    assertEquals("does not reach 1", apart.what());
  }

  /** A process's folder, whose namespaces these are. */
  private Path process(String name, String ipc, String pid) throws IOException {
    Path made = processes.resolve(name);
    Path ignored = Files.createDirectories(made.resolve("ns"));
    Files.createSymbolicLink(made.resolve("ns/ipc"), Path.of("ipc:[" + ipc + "]"));
    Files.createSymbolicLink(made.resolve("ns/pid"), Path.of("pid:[" + pid + "]"));
    return made;
  }

  @Test
  void sharing_daemonInOtherNamespaces_warns() throws IOException {
    Path own = process("own", "1", "2");
    Lender lender = new FakeLender(_ -> new Lender.Answer.Refused("no"));
    GpuProbe probe = new GpuProbe.Found(new Full(1, Map.of()));
    Finding other = one(find(probe, lender, process("a", "9", "2"), own), "GPU sharing");
    assertEquals(Level.WARN, other.level());
    assertTrue(other.what().contains("another ipc namespace"), other.toString());
    other = one(find(probe, lender, process("b", "1", "9"), own), "GPU sharing");
    assertTrue(other.what().contains("another pid namespace"), other.toString());
    for (Path daemon : List.of(own, processes.resolve("nobody may look"))) {
      assertEquals(Level.PASS, one(find(probe, lender, daemon, own), "GPU sharing").level());
    }
  }

  @Test
  void noGpu_nothingIsTried() {
    List<Finding> findings =
        find(
            new GpuProbe.NoGpu("this is a test"),
            new FakeLender(_ -> {
              throw new AssertionError("it was asked");
            }),
            OWN,
            OWN);
    assertEquals(List.of("GPU"), findings.stream().map(Finding::check).toList());
  }

  @Test
  void lender_refusals_areAnswers() throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    for (GpuProbe probe :
        List.of(new GpuProbe.NoGpu("this is a test"), new GpuProbe.Found(new Full(1, Map.of())))) {
      GpuLender.serve(
          new BufferedReader(new StringReader("GPU-0\nGPU-7\n")),
          new PrintStream(out, true, StandardCharsets.UTF_8),
          probe);
    }
    assertEquals(
        List.of(
            "refused no GPU because this is a test",
            "refused no GPU because this is a test",
            "refused cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY",
            "refused it sees no GPU GPU-7"),
        out.toString(StandardCharsets.UTF_8).lines().toList());
  }

  /** Writes what no lender would, then answers. */
  static final class Talkative {
    private Talkative() {}

    public static void main(String[] arguments) throws IOException {
      System.out.println("[warning] of the JVM");
      System.out.println(
          System.in.read() < 0 ? "refused nothing was asked" : "lent " + "0a".repeat(64));
    }
  }

  @Test
  void process_answersOfAnother_areHeard() {
    GpuDevice device = new GpuDevice(0, "GPU-none", "0000:00:00.0", "none", 1, 1);
    try (LenderProcess lender = new LenderProcess(Talkative.class.getName())) {
      assertEquals(new Lender.Answer.Lent(IpcHandle.parse("0a".repeat(64))), lender.lend(device));
      // It has ended.
      assertTrue(lender.lend(device) instanceof Lender.Answer.Refused, "it ended");
    }
    try (LenderProcess lender = new LenderProcess("no.such.Program")) {
      assertTrue(lender.lend(device) instanceof Lender.Answer.Refused, "there is no such program");
    }
    try (LenderProcess lender = new LenderProcess()) {
      assertTrue(lender.lend(device) instanceof Lender.Answer.Refused, "there is no such GPU");
    }
  }
}
