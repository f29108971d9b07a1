package io.kvtier.tiers.gpu;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Linker;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import org.junit.jupiter.api.Test;

/** What can be said of CUDA on a machine with or without it. */
final class CudaDriverTest {
  private static final Path KERNEL = Path.of("src/main/cuda/copy_runs.cu");

  @Test
  void probe_anyMachine_givesADriverOrAReason() {
    switch (CudaDriver.probe()) {
      case GpuProbe.Found(GpuDriver driver) -> assertFalse(driver.devices().isEmpty());
      case GpuProbe.NoGpu none -> {
        assertTrue(none.toString().startsWith("no GPU because "), none.toString());
        assertFalse(none.reason().isBlank());
      }
    }
  }

  @Test
  void probe_libraryWithoutTheFunctions_namesOne() {
    GpuProbe.NoGpu none =
        assertInstanceOf(
            GpuProbe.NoGpu.class, CudaDriver.probe(Linker.nativeLinker().defaultLookup()));
    assertTrue(none.reason().contains("cuInit"), none.reason());
  }

  @Test
  void kernel_inTheTree_isMadeOfItsSource() throws IOException, NoSuchAlgorithmException {
    String hash =
        HexFormat.of()
            .formatHex(MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(KERNEL)));
    try (InputStream ptx = CudaGpu.class.getResourceAsStream("copy_runs.ptx")) {
      assertTrue(ptx != null, "the kernel is missing: run scripts/build-kernel");
      String text = new String(ptx.readAllBytes(), StandardCharsets.US_ASCII);
      assertTrue(text.contains("SHA-256 " + hash), "the kernel is stale: run scripts/build-kernel");
      assertTrue(text.contains(".entry kvtier_copy_runs"));
    }
  }

  @Test
  void kernel_andTable_agreeOnTheirSizes() throws IOException {
    String source = Files.readString(KERNEL);
    assertTrue(source.contains("kPieceBytes = " + RunTable.PIECE_BYTES + ";"));
    assertTrue(
        source.contains(
            "sizeof(Form) == "
                + RunTable.FORM_BYTES
                + " && sizeof(Entry) == "
                + RunTable.ENTRY_BYTES));
    assertTrue(source.contains("kFormsMax = " + RunTable.FORMS_MAX + ";"));
  }
}
