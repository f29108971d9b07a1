package io.kvtier.tiers.gpu;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.layout.encoding.ExactGranuleDescriptor;
import io.kvtier.layout.encoding.GranuleShape;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Linker;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What can be said of CUDA on a machine with or without it. */
final class CudaDriverTest {
  private static final Path SOURCES = Path.of("src/main/cuda");
  private static final Path TABLE = SOURCES.resolve("run_table.cuh");

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

  @ParameterizedTest
  @CsvSource({
    "copy_runs, kvtier_copy_runs",
    "exact_granules, kvtier_encode_granules",
    "exact_granules, kvtier_decode_granules"
  })
  void kernel_inTheTree_isMadeOfItsSources(String name, String function)
      throws IOException, NoSuchAlgorithmException {
    MessageDigest digest = MessageDigest.getInstance("SHA-256");
    digest.update(Files.readAllBytes(SOURCES.resolve(name + ".cu")));
    digest.update(Files.readAllBytes(TABLE));
    String hash = HexFormat.of().formatHex(digest.digest());
    try (InputStream ptx = CudaGpu.class.getResourceAsStream(name + ".ptx")) {
      assertTrue(ptx != null, "the kernel is missing: run scripts/build-kernel");
      String text = new String(ptx.readAllBytes(), StandardCharsets.US_ASCII);
      assertTrue(text.contains("SHA-256 " + hash), "the kernel is stale: run scripts/build-kernel");
      assertTrue(text.contains(".entry " + function));
    }
  }

  @Test
  void kernels_andTable_agreeOnTheirSizes() throws IOException {
    String table = Files.readString(TABLE);
    assertTrue(
        table.contains(
            "sizeof(Form) == "
                + RunTable.FORM_BYTES
                + " && sizeof(Entry) == "
                + RunTable.ENTRY_BYTES));
    assertTrue(table.contains("kFormsMax = " + RunTable.FORMS_MAX + ";"));
    assertTrue(table.contains("kWarps = " + RunTable.BLOCK_THREADS / 32 + ";"));
    assertTrue(
        Files.readString(SOURCES.resolve("copy_runs.cu"))
            .contains("kPieceBytes = " + RunTable.PIECE_BYTES + ";"));
  }

  @Test
  void kernelsOfGranules_andTheirLayout_agree() throws IOException {
    String source = Files.readString(SOURCES.resolve("exact_granules.cu"));
    for (String constant :
        List.of(
            "kTileElements = " + GranuleShape.TILE_ELEMENTS,
            "kElementsMax = " + GranuleShape.ELEMENTS_MAX,
            "kCodeZero = " + ExactGranuleDescriptor.CODE_ZERO,
            "kCodeEscape = " + ExactGranuleDescriptor.CODE_ESCAPE,
            "kCountOffset = " + ExactGranuleDescriptor.COUNT_OFFSET,
            "kBasesOffset = " + ExactGranuleDescriptor.BASES_OFFSET)) {
      assertTrue(source.contains("constexpr u32 " + constant + ";"), constant);
    }
  }
}
