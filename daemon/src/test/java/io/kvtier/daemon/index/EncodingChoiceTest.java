package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonObject;
import io.kvtier.daemon.gpu.FileGpu;
import io.kvtier.layout.encoding.EncodingKind;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.gpu.EncodingMode;
import io.kvtier.tiers.transfer.Checksums;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.EnumSource;

/** Blocks of GPUs on which encoded copies are far slower than raw ones. */
@ParameterizedClass
@EnumSource(EncodingKind.class)
final class EncodingChoiceTest extends EncodedRanks {
  /** A copy of many raw blocks takes a small part of this time. */
  private static final long CODING_NS = 30_000_000;

  private final EncodingKind kind;

  EncodingChoiceTest(EncodingKind kind) {
    super(kind);
    this.kind = kind;
  }

  private IndexHarness slowHarness(EncodingMode mode) throws IOException {
    FileGpu gpu = gpu();
    gpu.slowDownCoding(CODING_NS);
    return new IndexHarness(
        new IndexHarness.Settings(3, 32)
            .sessions(32)
            .checksums(new IndexHarness.InlinePipeline(Checksums::run), 0)
            .gpu(gpu)
            .measuresCopies()
            .encoding(mode));
  }

  @Test
  void blocksOfASlowEncoder_arePutRawUnlessTheEncodingIsLossy_andAreReadByAnyRanks()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = slowHarness(EncodingMode.AUTO)) {
      List<Rank> writers = engine(harness, 1, 2);
      List<Rank> readers = engine(harness, 1, HEADS);
      byte[] block = values();
      for (Rank rank : writers) {
        rank.write(2, block);
        assertEquals(Status.OK, rank.put(7, 2));
      }
      workUntilIdle(harness);
      boolean isRaw = kind == EncodingKind.EXACT;
      assertEquals(isRaw ? 1 : 0, count(harness, Counter.PUT_RAW));
      assertEquals(isRaw ? 0 : 1, count(harness, Counter.PUT_ENCODED));
      assertTrue(harness.find(isRaw ? block : encoded(block)) >= 0, "its slot has that form");
      assertEquals(1, slotsInUse(harness, writers.getFirst()));
      assertArrayEquals(block, read(readers, 7, 1));
      assertEquals(isRaw ? "raw" : "encoded", reportedForm(writers.getFirst()));
    }
  }

  @Test
  void blocksOfASlowEncoder_areEncodedWhereThereIsNoChoice() throws IOException, ProtocolViolation {
    try (IndexHarness harness = slowHarness(EncodingMode.ALWAYS)) {
      Rank rank = engine(harness, 1, 1).getFirst();
      rank.write(2, values());
      assertEquals(Status.OK, rank.put(7, 2));
      workUntilIdle(harness);
      assertEquals(1, count(harness, Counter.PUT_ENCODED));
    }
  }

  /** The form that the only GPU has chosen, as operators see it. */
  private static String reportedForm(Rank rank) throws ProtocolViolation {
    JsonObject all = Json.parse(rank.client.stats()).asObject();
    JsonObject gpu = all.get("gpus").asArray().get(0).asObject();
    return gpu.get("encoding").asObject().get("form").asString();
  }
}
