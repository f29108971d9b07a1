package io.kvtier.tiers.gpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.kvtier.layout.encoding.BlockEncoding;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

final class EncodingChoiceTest {
  private static boolean isEncoded(String kind, double offload, double onboard) {
    BlockEncoding encoding = BlockEncoding.of(kind + " bf16 4096", 1 << 20);
    FormSpeeds out = new FormSpeeds(50, 50 * offload);
    FormSpeeds in = new FormSpeeds(50, 50 * onboard);
    return EncodingChoice.of(encoding, out, in).isEncoded();
  }

  @Test
  void exactBlocks_areRaw_ifADirectionLosesMoreSpeedThanTheMemoryGains() {
    assertEquals(true, isEncoded("exact", 1.2, 1.2));
    assertEquals(true, isEncoded("exact", 0.77, 0.77));
    assertEquals(false, isEncoded("exact", 0.74, 1.2));
    assertEquals(false, isEncoded("exact", 1.2, 0.74));
  }

  @Test
  void lossyBlocks_areEncoded_howeverSlowThatIs() {
    assertEquals(true, isEncoded("fp8", 0.01, 0.01));
  }

  @Test
  void speeds_areThoseOfTheNearestRunsWithEncodedCopies() {
    StrategyTable table =
        new StrategyTable(
            List.of(
                new StrategyTable.Measured(
                    4 << 10,
                    32 << 20,
                    Map.of(CopyStrategy.STAGED, 40.0, CopyStrategy.ENCODED, 60.0)),
                new StrategyTable.Measured(64 << 10, 2 << 20, Map.of(CopyStrategy.BATCH, 10.0)),
                new StrategyTable.Measured(
                    64 << 10,
                    32 << 20,
                    Map.of(CopyStrategy.BATCH, 50.0, CopyStrategy.ENCODED, 70.0))),
            0.97);
    assertEquals(new FormSpeeds(40, 60), table.formSpeeds(1 << 10));
    assertEquals(new FormSpeeds(50, 70), table.formSpeeds(64 << 10));
    assertEquals(CopyStrategy.BATCH, table.choose(64 << 10, 2 << 20, 32 << 20, false));
    assertNull(StrategyTable.only(CopyStrategy.PLAIN).formSpeeds(1 << 10));
  }
}
