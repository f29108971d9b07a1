package io.kvtier.tiers.gpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.layout.encoding.ExactGranuleDescriptor;
import io.kvtier.layout.encoding.Fp8GranuleDescriptor;
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
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What can be said of CUDA on a machine with or without it. */
final class CudaDriverTest {
  private static final Path SOURCES = Path.of("src/main/cuda");
  private static final Path TABLE = SOURCES.resolve("run_table.cuh");
  private static final Pattern MADE =
      Pattern.compile("// Made by scripts/build-kernel of (.+), SHA-256 ([0-9a-f]+)\n");

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
    "exact_granules, kvtier_decode_granules",
    "fp8_granules, kvtier_encode_granules",
    "fp8_granules, kvtier_decode_granules"
  })
  void kernel_inTheTree_isMadeOfItsSources(String name, String function)
      throws IOException, NoSuchAlgorithmException {
    try (InputStream ptx = CudaGpu.class.getResourceAsStream(name + ".ptx")) {
      assertTrue(ptx != null, "the kernel is missing: run scripts/build-kernel");
      String text = new String(ptx.readAllBytes(), StandardCharsets.US_ASCII);
      Matcher made = MADE.matcher(text);
      assertTrue(made.lookingAt(), text.substring(0, 200));
      List<String> sources = List.of(made.group(1).split(", ", -1));
      assertEquals(name + ".cu", sources.getFirst());
      assertTrue(sources.contains(TABLE.getFileName().toString()), made.group(1));
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      for (String source : sources) {
        digest.update(Files.readAllBytes(SOURCES.resolve(source)));
      }
      String hash = HexFormat.of().formatHex(digest.digest());
      assertEquals(hash, made.group(2), "the kernel is stale: run scripts/build-kernel");
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
  void kernelsOfGranules_andTheirLayouts_agree() throws IOException {
    assertConstants(
        "granules.cuh",
        "kTileElements = " + GranuleShape.TILE_ELEMENTS,
        "kElementsMax = " + GranuleShape.ELEMENTS_MAX);
    assertConstants(
        "exact_granules.cu",
        "kCodeZero = " + ExactGranuleDescriptor.CODE_ZERO,
        "kCodeEscape = " + ExactGranuleDescriptor.CODE_ESCAPE,
        "kCountOffset = " + ExactGranuleDescriptor.COUNT_OFFSET,
        "kBasesOffset = " + ExactGranuleDescriptor.BASES_OFFSET);
    assertConstants(
        "fp8_granules.cu",
        "kErrorsOffset = " + Fp8GranuleDescriptor.ERRORS_OFFSET,
        "kBaseMin = " + Fp8GranuleDescriptor.BASE_MIN,
        "kBaseMax = " + Fp8GranuleDescriptor.BASE_MAX,
        "kMantissaMax = 0x" + Integer.toHexString(Fp8GranuleDescriptor.MANTISSA_MAX));
  }

  private static void assertConstants(String name, String... constants) throws IOException {
    String source = Files.readString(SOURCES.resolve(name));
    for (String constant : constants) {
      assertTrue(source.contains("constexpr u32 " + constant + ";"), constant);
    }
  }
}
