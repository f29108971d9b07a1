package io.kvtier.tiers.gpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.kvtier.tiers.gpu.StrategyTable.Measured;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

final class StrategyTableTest {
  /** The bytes of a block that lies in one piece on the host. */
  private static final int WHOLE = 2 << 20;

  private static Measured row(int runBytes, long bytes, CopyStrategy best) {
    return new Measured(runBytes, bytes, Map.of(CopyStrategy.PLAIN, 1.0, best, 50.0));
  }

  private static CopyStrategy best(double plain, double batch, double staged, double kernel) {
    Map<CopyStrategy, Double> rates =
        Map.of(
            CopyStrategy.PLAIN, plain,
            CopyStrategy.BATCH, batch,
            CopyStrategy.STAGED, staged,
            CopyStrategy.KERNEL, kernel);
    return new Measured(32 << 10, 2 << 20, rates).best(0.97);
  }

  @Test
  void best_nearlyAsFastAndGentler_isTaken() {
    assertEquals(CopyStrategy.STAGED, best(11, 39, 52, 53));
    assertEquals(CopyStrategy.PLAIN, best(52, 51.5, 53, 50));
    assertEquals(CopyStrategy.BATCH, best(44, 51.5, 53, 50));
  }

  @Test
  void best_callForEachRunIsNearlyAsFast_isNoGentlerThanOneForMany() {
    assertEquals(CopyStrategy.BATCH, best(51.5, 54.5, 54, 50));
  }

  @Test
  void best_lessSpeedIsEnough_takesTheGentlerOne() {
    Map<CopyStrategy, Double> rates =
        Map.of(CopyStrategy.BATCH, 45.0, CopyStrategy.STAGED, 52.0, CopyStrategy.KERNEL, 53.0);
    Measured measured = new Measured(32 << 10, 2 << 20, rates);
    assertEquals(CopyStrategy.STAGED, measured.best(0.97));
    assertEquals(CopyStrategy.BATCH, measured.best(0.8));
  }

  @Test
  void best_kernelIsALittleFaster_isNotWorthTheMultiprocessors() {
    assertEquals(CopyStrategy.STAGED, best(7, 14, 29, 36));
  }

  @Test
  void best_kernelIsMuchFaster_isTaken() {
    assertEquals(CopyStrategy.KERNEL, best(2, 8, 25, 36));
  }

  @Test
  void choose_nearestMeasurement_decides() {
    StrategyTable table =
        new StrategyTable(
            List.of(
                row(4 << 10, 2 << 20, CopyStrategy.KERNEL),
                row(4 << 10, 16 << 20, CopyStrategy.STAGED),
                row(2 << 20, 2 << 20, CopyStrategy.BATCH)),
            0.97);
    assertEquals(CopyStrategy.KERNEL, table.choose(5_000, WHOLE, 1 << 20, false));
    assertEquals(CopyStrategy.STAGED, table.choose(2_000, WHOLE, 64 << 20, false));
    assertEquals(CopyStrategy.BATCH, table.choose(1 << 20, WHOLE, 16 << 20, false));
    assertEquals(CopyStrategy.KERNEL, table.choose(0, WHOLE, 0, false));
  }

  @Test
  void choose_kernelsWait_takesACopyEngineThatIsFastEnough() {
    Map<CopyStrategy, Double> long64 = Map.of(CopyStrategy.BATCH, 40.0, CopyStrategy.STAGED, 53.0);
    Map<CopyStrategy, Double> short8 = Map.of(CopyStrategy.BATCH, 8.0, CopyStrategy.STAGED, 50.0);
    StrategyTable table =
        new StrategyTable(
            List.of(
                new Measured(64 << 10, 16 << 20, long64),
                new Measured(8 << 10, 16 << 20, short8),
                new Measured(WHOLE, 16 << 20, Map.of(CopyStrategy.BATCH, 53.0))),
            0.97);
    assertEquals(CopyStrategy.STAGED, table.choose(64 << 10, WHOLE, 16 << 20, false));
    assertEquals(CopyStrategy.BATCH, table.choose(64 << 10, WHOLE, 16 << 20, true));
    assertEquals(CopyStrategy.STAGED, table.choose(8 << 10, WHOLE, 16 << 20, true));
  }

  @Test
  void choose_piecesOnTheHostAreShort_takesTheKernelInsteadOfACopyForEachPiece() {
    Map<CopyStrategy, Double> short16 =
        Map.of(CopyStrategy.BATCH, 2.0, CopyStrategy.STAGED, 50.0, CopyStrategy.KERNEL, 52.0);
    Map<CopyStrategy, Double> long512 =
        Map.of(CopyStrategy.BATCH, 51.0, CopyStrategy.STAGED, 50.0, CopyStrategy.KERNEL, 52.0);
    StrategyTable table =
        new StrategyTable(
            List.of(
                new Measured(16 << 10, 32 << 20, short16),
                new Measured(512 << 10, 32 << 20, long512)),
            0.97);
    assertEquals(CopyStrategy.STAGED, table.choose(16 << 10, WHOLE, 32 << 20, false));
    assertEquals(CopyStrategy.STAGED, table.choose(16 << 10, 512 << 10, 32 << 20, false));
    assertEquals(CopyStrategy.KERNEL, table.choose(16 << 10, 16 << 10, 32 << 20, false));
    assertEquals(CopyStrategy.KERNEL, table.choose(16 << 10, 16 << 10, 32 << 20, true));
    assertEquals(CopyStrategy.BATCH, table.choose(512 << 10, 512 << 10, 32 << 20, false));
  }

  @Test
  void only_takesItWhateverIsCopied() {
    for (CopyStrategy strategy : EnumSet.complementOf(EnumSet.of(CopyStrategy.ENCODED))) {
      StrategyTable table = StrategyTable.only(strategy);
      assertEquals(strategy, table.choose(4096, 4096, 1 << 20, false));
      assertEquals(strategy, table.choose(4096, WHOLE, 1 << 20, true));
    }
  }

  @Test
  void table_withoutAMeasurement_isRefused() {
    assertThrows(IllegalArgumentException.class, () -> new StrategyTable(List.of(), 0.97));
  }

  @Test
  void table_thatWantsMoreThanAllSpeed_isRefused() {
    List<Measured> rows = List.of(row(1, 1, CopyStrategy.KERNEL));
    assertThrows(IllegalArgumentException.class, () -> new StrategyTable(rows, 1.1));
    assertThrows(IllegalArgumentException.class, () -> new StrategyTable(rows, 0));
  }
}
