package io.kvtier.cli;

import static io.kvtier.cli.Ran.run;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class SimulateCommandTest {
  private static final String LINES =
      """
      {"timestamp": 0, "input_length": 1536, "output_length": 5, "hash_ids": [0, 1, 2]}
      {"timestamp": 9, "input_length": 1024, "output_length": 5, "hash_ids": [0, 3]}
      {"timestamp": 11, "input_length": 1536, "output_length": 5, "hash_ids": [0, 1, 2]}
      """;

  @TempDir private Path folder;
  private Path trace;

  @BeforeEach
  void writeTrace() throws IOException {
    trace = Files.writeString(folder.resolve("trace.jsonl"), LINES);
  }

  private JsonArray simulate(String policies, String... more) {
    String[] arguments = new String[6 + more.length];
    List<String> first =
        List.of("simulate", "--json", "--trace", trace.toString(), "--policy", policies);
    first.toArray(arguments);
    System.arraycopy(more, 0, arguments, first.size(), more.length);
    Ran ran = run(arguments);
    assertEquals(0, ran.exitCode(), ran.err());
    return Json.parse(ran.out()).asArray();
  }

  @Test
  void json_hasTheAgreedNames_andCountsByHand() {
    JsonObject row = simulate("lru", "--capacity-blocks", "3").get(0).asObject();
    assertEquals(
        List.of(
            "policy",
            "order",
            "capacity_blocks",
            "references",
            "block_hits",
            "prefix_hits",
            "block_hit_ratio",
            "prefix_hit_ratio",
            "evictions",
            "metadata_bytes",
            "ns_per_operation"),
        row.names());
    // [0 1 2] all miss; 0 hits, 3 pushes 1 out; 0 hits, 1 pushes 2 out, 2 pushes 3 out.
    assertEquals("lru", row.getString("policy", ""));
    assertEquals("head-first", row.getString("order", ""));
    assertEquals(3, row.getInt("capacity_blocks", 0));
    assertEquals(8, row.getInt("references", 0));
    assertEquals(2, row.getInt("block_hits", 0));
    assertEquals(2, row.getInt("prefix_hits", 0));
    assertEquals(0.25, row.getDouble("block_hit_ratio", 0));
    assertEquals(0.25, row.getDouble("prefix_hit_ratio", 0));
    assertEquals(3, row.getInt("evictions", 0));
  }

  @Test
  void tailFirst_keepsHeads() {
    // [2 1 0] miss; 3 pushes 2 out, 0 hits; 2 pushes 1 out, 1 pushes 3 out, 0 hits.
    JsonObject row =
        simulate("lru", "--capacity-blocks", "3", "--order", "tail-first").get(0).asObject();
    assertEquals(2, row.getInt("block_hits", 0));
    // At the third request's start 0 and 1 are there.
    assertEquals(3, row.getInt("prefix_hits", 0));
  }

  @Test
  void severalPoliciesAndSizes_oneRowEach() {
    JsonArray rows = simulate("fifo,opt,infinite", "--capacity-fraction", "0.5,1");
    assertEquals(6, rows.size());
    assertEquals(2, rows.get(0).asObject().getInt("capacity_blocks", 0));
    assertEquals(4, rows.get(1).asObject().getInt("capacity_blocks", 0));
    for (int i = 4; i < 6; i++) {
      assertEquals(4, rows.get(i).asObject().getInt("block_hits", 0));
    }
  }

  @Test
  void warmup_countsOnlyWhatFollows() {
    JsonObject row = simulate("lru", "--capacity-blocks", "3", "--warmup", "1").get(0).asObject();
    assertEquals(5, row.getInt("references", 0));
    assertEquals(3, row.getInt("evictions", 0));
  }

  @Test
  void gzip_isReadWhateverItsName() throws IOException {
    try (OutputStream gzip = new GZIPOutputStream(Files.newOutputStream(trace))) {
      gzip.write(LINES.getBytes(java.nio.charset.StandardCharsets.UTF_8));
    }
    assertEquals(1, simulate("lru", "--capacity-blocks", "3").size());
  }

  @Test
  void table_hasARowAPolicy() {
    Ran ran =
        run("simulate", "--trace", trace.toString(), "--policy", "lru,opt", "--capacity-blocks=2");
    assertEquals(3, ran.out().lines().count(), ran.out());
  }

  @Test
  void plot_drawsACurveAPolicy() throws IOException {
    Path plot = folder.resolve("plot.svg");
    simulate("lru,opt", "--capacity-blocks", "3", "--plot", plot.toString());
    String svg = Files.readString(plot);
    assertEquals(3, svg.split("<polyline", -1).length);
    assertTrue(svg.contains(">opt</text>"), svg);
    assertTrue(svg.contains(">cache size, share of the trace's distinct blocks</text>"), svg);
    assertTrue(svg.contains(">50 %</text>"), svg);
  }

  @Test
  void plot_blockSizeIsGiven_isInGib() throws IOException {
    Path plot = folder.resolve("plot.svg");
    JsonObject row =
        simulate(
                "lru",
                "--capacity-blocks",
                "3",
                "--block-bytes",
                "512MiB",
                "--plot",
                plot.toString())
            .get(0)
            .asObject();
    String svg = Files.readString(plot);
    assertTrue(svg.contains(">cache size in GiB, blocks of 512 MiB</text>"), svg);
    // Half of the four distinct blocks.
    assertTrue(svg.contains(">1</text>"), svg);
    assertEquals(3L * (512 << 20), row.getLong("capacity_bytes", 0));
  }

  @Test
  void plot_traceTellsItsBlockSize_isInGib() throws IOException {
    Path plot = folder.resolve("plot.svg");
    Files.writeString(
        trace, LINES.replace("\"hash_ids\"", "\"block_bytes\": 1073741824, \"hash_ids\""));
    simulate("lru", "--capacity-blocks", "3", "--plot", plot.toString());
    assertTrue(Files.readString(plot).contains("in GiB, blocks of 1.0 GiB"));
    // Several sizes are none.
    Files.writeString(
        trace, LINES.replaceFirst("\"hash_ids\"", "\"block_bytes\": 4096, \"hash_ids\""));
    simulate("lru", "--capacity-blocks", "3", "--plot", plot.toString());
    assertTrue(Files.readString(plot).contains("share of the trace's distinct blocks"));
  }

  @Test
  void gib_ofBytes_hasThreeFigures() {
    assertEquals("0.00122", SimulateCommand.gib(20 * 65536));
    assertEquals("2.5", SimulateCommand.gib(2.5 * (1L << 30)));
    assertEquals("1230", SimulateCommand.gib(1234.0 * (1L << 30)));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '"',
      value = {
        "--policy nonsense --capacity-blocks 3|named 'nonsense'; there are ",
        "--policy lru --capacity-blocks none|--capacity-blocks is 'none', expected a whole number",
        "--policy lru --capacity-blocks 0|--capacity-blocks is '0', expected a whole number from 1",
        "--policy lru --capacity-fraction 1.5|--capacity-fraction is '1.5', expected a number above 0",
        "--policy lru --capacity-fraction -1|--capacity-fraction is '-1', expected a number above 0",
        "--policy lru --capacity-fraction much|--capacity-fraction is 'much', expected a number",
        "--policy lru --capacity-blocks 3 --order random|--order is 'random', expected head-first",
        "--policy lru --capacity-blocks 3 --warmup -1|--warmup is '-1', expected a whole number from 0",
        "--policy lru --capacity-blocks 3 --block-bytes 1024|--block-bytes is '1024', expected a",
        "--policy lru --capacity-blocks 3 --warmup 3|--warmup is 3, but the trace has 3 requests",
        "--policy lru|missing: --capacity-blocks N or --capacity-fraction F;",
        "--policy lru --capacity-blocks 3 --capacity-fraction 0.1|mutually exclusive",
      })
  void wrongOption_endsWith2AndSaysWhat(String options, String message) {
    String[] words = ("simulate --trace " + trace + " " + options).split(" ", -1);
    Ran ran = run(words);
    assertEquals(2, ran.exitCode());
    assertTrue(ran.err().contains(message), ran.err());
    assertEquals("", ran.out());
  }

  @Test
  void noOptions_namesAllThatAreRequired() {
    Ran ran = run("simulate");
    assertEquals(2, ran.exitCode());
    assertTrue(
        ran.err()
            .contains(
                "missing: --trace FILE, --policy NAME, --capacity-blocks N or --capacity-fraction F;"),
        ran.err());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "nonsense|not JSON",
        "[1]|not a JSON object",
        "{}|no list hash_ids",
        "{\"hash_ids\": [1, \"a\"]}|hash_ids has \"a\", which is not a whole number",
        "{\"block_bytes\": \"1KiB\", \"hash_ids\": [1]}|block_bytes is \"1KiB\", which is not a",
        "{\"hash_ids\": [1, 1]}|a block is twice in one request",
      })
  void malformedLine_isNamed(String line, String message) throws IOException {
    Files.writeString(trace, LINES + line + "\n");
    Ran ran = run("simulate", "--trace", trace.toString(), "--policy=lru", "--capacity-blocks=3");
    assertEquals(2, ran.exitCode());
    assertTrue(ran.err().contains("line 4 of the trace " + trace + ": " + message), ran.err());
  }

  @Test
  void missingOrEmptyFile_isNamed() throws IOException {
    String missing = folder.resolve("none").toString();
    Ran ran = run("simulate", "--trace", missing, "--policy=lru", "--capacity-blocks=3");
    assertEquals(2, ran.exitCode());
    assertTrue(ran.err().contains("there is no trace " + missing), ran.err());
    Files.writeString(trace, "\n");
    ran = run("simulate", "--trace", trace.toString(), "--policy=lru", "--capacity-blocks=3");
    assertEquals(2, ran.exitCode());
    assertTrue(ran.err().contains("has no requests"), ran.err());
    ran = run("simulate", "--trace", folder.toString(), "--policy=lru", "--capacity-blocks=3");
    assertEquals(2, ran.exitCode());
    assertTrue(ran.err().contains(folder + " can't be read"), ran.err());
  }
}
