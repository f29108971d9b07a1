package io.kvtier.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HexFormat;
import org.junit.jupiter.api.Test;

/**
 * The same bytes as the Python client's, but for lengths that stand in more bytes than they need.
 */
class BlockTokensTest {
  private static String hex(BlockTokens tokens) {
    return HexFormat.of().formatHex(tokens.annotation());
  }

  @Test
  void annotation_knownTokens_hasTheGoldenBytes() {
    String ids = "d909" + "746f6b656e5f696473" + "c408" + "0100000070110100";
    assertEquals("81" + ids, hex(BlockTokens.of(1, 70000)));
    String parent = "d906" + "706172656e74" + "c402" + "0907";
    BlockTokens second = BlockTokens.of(1, 70000).after(new byte[] {9, 7});
    assertEquals("82" + ids + parent, hex(second));
    String lora =
        "d907"
            + "6c6f72615f6964"
            + "d3000000000000012c"
            + "d909"
            + "6c6f72615f6e616d65"
            + "d903616461";
    assertEquals("84" + ids + parent + lora, hex(second.withLora(300, "ada")));
  }

  @Test
  void annotation_manyTokens_haveTheirLengthInTwoBytes() {
    String hex = hex(BlockTokens.of(new int[300]));
    assertEquals("81d909746f6b656e5f696473" + "c504b0" + "00".repeat(1200), hex);
  }
}
