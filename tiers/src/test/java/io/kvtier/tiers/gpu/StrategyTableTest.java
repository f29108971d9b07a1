package io.kvtier.tiers.gpu;

import static io.kvtier.tiers.gpu.CopyDirection.OFFLOAD;
import static io.kvtier.tiers.gpu.CopyDirection.ONBOARD;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.kvtier.tiers.gpu.StrategyTable.Measured;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

final class StrategyTableTest {
  private static Measured row(
      CopyDirection direction, int runBytes, long bytes, CopyStrategy best) {
    return new Measured(direction, runBytes, bytes, Map.of(CopyStrategy.PLAIN, 1.0, best, 50.0));
  }

  @Test
  void best_oneIsNearlyAsFastAndGentler_isTaken() {
    Map<CopyStrategy, Double> rates =
        Map.of(
            CopyStrategy.PLAIN, 11.0,
            CopyStrategy.BATCH, 39.0,
            CopyStrategy.STAGED, 52.0,
            CopyStrategy.KERNEL, 53.0);
    assertEquals(CopyStrategy.STAGED, new Measured(OFFLOAD, 32 << 10, 2 << 20, rates).best());
  }

  @Test
  void best_gentleOneIsMuchSlower_isNotTaken() {
    Map<CopyStrategy, Double> rates = Map.of(CopyStrategy.PLAIN, 11.0, CopyStrategy.KERNEL, 53.0);
    assertEquals(CopyStrategy.KERNEL, new Measured(OFFLOAD, 4096, 2 << 20, rates).best());
  }

  @Test
  void choose_nearestMeasurementOfTheDirection_decides() {
    StrategyTable table =
        new StrategyTable(
            List.of(
                row(OFFLOAD, 4 << 10, 2 << 20, CopyStrategy.KERNEL),
                row(OFFLOAD, 4 << 10, 16 << 20, CopyStrategy.STAGED),
                row(OFFLOAD, 2 << 20, 2 << 20, CopyStrategy.BATCH),
                row(ONBOARD, 4 << 10, 2 << 20, CopyStrategy.STAGED)));
    assertEquals(CopyStrategy.KERNEL, table.choose(OFFLOAD, 5_000, 1 << 20));
    assertEquals(CopyStrategy.STAGED, table.choose(OFFLOAD, 2_000, 64 << 20));
    assertEquals(CopyStrategy.BATCH, table.choose(OFFLOAD, 1 << 20, 16 << 20));
    assertEquals(CopyStrategy.STAGED, table.choose(ONBOARD, 2 << 20, 2 << 20));
    assertEquals(CopyStrategy.STAGED, table.choose(ONBOARD, 0, 0));
  }

  @Test
  void table_withoutADirection_isRefused() {
    assertThrows(
        IllegalArgumentException.class,
        () -> new StrategyTable(List.of(row(OFFLOAD, 1, 1, CopyStrategy.KERNEL))));
  }
}
