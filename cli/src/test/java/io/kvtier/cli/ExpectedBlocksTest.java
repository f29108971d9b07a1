package io.kvtier.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import org.junit.jupiter.api.Test;

class ExpectedBlocksTest {
  @Test
  void words_noBlockExpected_saysNothing() {
    assertEquals("", new ExpectedBlocks(Map.of("node_expected_bytes", 0L)).words());
  }

  @Test
  void words_blocksThatDidNotCome_areToldByReason() {
    assertEquals(
        "2 blocks from other nodes now, 1 by other nodes; 1 block came since the start (16 KiB in 4"
            + " pieces), and 5 did not: 3 late, 2 corrupt",
        new ExpectedBlocks(
                Map.of(
                    "expected", 2L,
                    "followed", 1L,
                    "node_expected", 1L,
                    "node_expected_bytes", 16384L,
                    "node_pieces", 4L,
                    "node_expected_late", 3L,
                    "node_expected_corrupt", 2L))
            .words());
  }

  @Test
  void json_hasEachReason() {
    assertEquals(
        "{\"waiting\":0,\"followed\":0,\"blocks\":7,\"bytes\":0,\"pieces\":0,\"lost\":{\"late\":0,"
            + "\"unwanted\":0,\"refused\":1,\"unreachable\":0,\"broken\":0,\"corrupt\":0}}",
        new ExpectedBlocks(Map.of("node_expected", 7L, "node_expected_refused", 1L))
            .json()
            .toString());
  }
}
