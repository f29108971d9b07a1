package io.kvtier.daemon.doctor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.config.ConfigException;
import io.kvtier.daemon.config.ConfigSource;
import io.kvtier.daemon.doctor.ContainerChecks.Surroundings;
import io.kvtier.daemon.doctor.Finding.Level;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What the doctor says in a container. */
final class ContainerChecksTest {
  private static final long GIB = 1L << 30;

  @TempDir private Path folder;

  private List<Finding> find(long groupBytes, Map<String, String> environment, String... settings)
      throws ConfigException {
    return new ContainerChecks(
            new ConfigSource(null, Map.of(), List.of(settings)).load().config(),
            new Surroundings(
                groupBytes,
                64 * GIB,
                GIB,
                folder.resolve("nvidiactl"),
                folder.resolve("version"),
                environment))
        .findings();
  }

  private Finding only(List<Finding> findings) {
    assertEquals(1, findings.size(), findings.toString());
    return findings.getFirst();
  }

  @Test
  void noLimitAndNoDriver_nothingIsSaid() throws ConfigException {
    assertEquals(List.of(), find(0, Map.of(), "host.bytes=1GiB"));
    assertEquals(List.of(), find(64 * GIB, Map.of(), "host.bytes=1GiB"));
  }

  @Test
  void memory_thatHoldsTheBlocksButNotTheHeap_isWarnedOfWithWhatIsNeeded() throws ConfigException {
    String annotations = "limits.annotation_bytes=256MiB";
    Finding finding = only(find(2 * GIB, Map.of(), "host.bytes=1GiB", annotations));
    assertEquals(Level.WARN, finding.level(), finding.toString());
    assertTrue(finding.what().contains("the control group allows 2 GiB"), finding.toString());
    assertTrue(finding.cure().contains("container to 3 GiB or more"), finding.toString());
    assertEquals(
        Level.PASS,
        only(find(2 * GIB + (768 << 20), Map.of(), "host.bytes=1GiB", annotations)).level());
    // Without a keeper there is no second copy of the annotations.
    assertEquals(
        Level.PASS,
        only(find(2 * GIB + (512L << 20), Map.of(), "host.bytes=1GiB", annotations, "host.keep=0"))
            .level());
  }

  @Test
  void gpu_driverWithoutDeviceFiles_isWarnedOf() throws ConfigException, IOException {
    Files.createFile(folder.resolve("version"));
    Finding finding = only(find(0, Map.of(), "gpu.enabled=auto"));
    assertEquals(Level.WARN, finding.level(), finding.toString());
    assertTrue(finding.cure().contains("NVIDIA_VISIBLE_DEVICES=all"), finding.toString());
    assertEquals(List.of(), find(0, Map.of(), "gpu.enabled=off"));
  }

  @Test
  void gpu_someOfThemVisible_isWarnedOf() throws ConfigException, IOException {
    Files.createFile(folder.resolve("version"));
    Files.createFile(folder.resolve("nvidiactl"));
    Finding finding = only(find(0, Map.of("NVIDIA_VISIBLE_DEVICES", "0,1"), "gpu.enabled=auto"));
    assertTrue(finding.what().contains("NVIDIA_VISIBLE_DEVICES is 0,1"), finding.toString());
    for (String all : List.of("all", "")) {
      assertEquals(
          List.of(), find(0, Map.of("NVIDIA_VISIBLE_DEVICES", all), "gpu.enabled=auto"), all);
    }
  }
}
