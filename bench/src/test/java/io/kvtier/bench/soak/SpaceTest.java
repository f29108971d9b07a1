package io.kvtier.bench.soak;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.security.MessageDigest;
import java.util.HexFormat;
import org.junit.jupiter.api.Test;

/** The bytes of the soak's blocks. */
final class SpaceTest {
  /** {@code checks/tests/test_soak_oracle.py} has the same sum. */
  private static final String GOLDEN =
      "0af2e3a6866926c94f978b662ba33d72580cb2cdfea592ea9f4b25c7357b45c5";

  @Test
  void block_isTheSameInPython() throws Exception {
    Space space = new Space("golden", "space", 40_000);
    byte[] block = space.block(space.key(7));
    byte[] digest = MessageDigest.getInstance("SHA-256").digest(block);

    assertEquals(GOLDEN, HexFormat.of().formatHex(digest));
    assertEquals(0, space.wrongBytes(space.key(7), block));
    block[39_999] ^= 1;
    assertEquals(1, space.wrongBytes(space.key(7), block));
  }
}
