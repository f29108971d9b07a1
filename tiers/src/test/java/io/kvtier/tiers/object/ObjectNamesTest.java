package io.kvtier.tiers.object;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.tiers.transfer.Transfer;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class ObjectNamesTest {
  private final Transfer read = new Transfer(0);

  @Test
  void readBlock_anyNameOfABlock_hasWhatItWasMadeOf() {
    Random random = new Random(1);
    for (int i = 0; i < 1000; i++) {
      Transfer made = new Transfer(1);
      random.nextBytes(made.key);
      made.keyBytes = 1 + random.nextInt(made.key.length);
      Arrays.fill(made.key, made.keyBytes, made.key.length, (byte) 0);
      made.namespaceHigh = random.nextLong();
      made.namespaceLow = random.nextLong();
      made.group = i % 2 == 0 ? 0 : random.nextInt(1 << 16);
      String name =
          ObjectNames.ofBlock(
              made.namespaceHigh, made.namespaceLow, made.key, made.keyBytes, made.group);
      assertTrue(ObjectNames.readBlock(name, read), name);
      assertEquals(ObjectKey.of(made), ObjectKey.of(read), name);
      assertEquals(made.namespaceHigh, read.namespaceHigh);
      assertEquals(made.namespaceLow, read.namespaceLow);
      assertEquals(made.group, read.group);
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "README",
        "0000000000000001000000000000000f/ab/",
        "0000000000000001000000000000000f/ab/a",
        "0000000000000001000000000000000f/ab/abc",
        "0000000000000001000000000000000f/ab/ac",
        "0000000000000001000000000000000f/AB/AB",
        "0000000000000001000000000000000F/ab/ab",
        "000000000000001000000000000000f/ab/abcd",
        "0000000000000001000000000000000f-ab/abcd",
        "0000000000000001000000000000000f/ab-abcd",
        "0000000000000001000000000000000f/ab/abcd/",
        "0000000000000001000000000000000f/ab/abcd.",
        "0000000000000001000000000000000f/ab/abcd.g",
        "0000000000000001000000000000000f/ab/abcd.g0",
        "0000000000000001000000000000000f/ab/abcd.g01",
        "0000000000000001000000000000000f/ab/abcd.g1x",
        "0000000000000001000000000000000f/ab/abcd.g65536",
        "0000000000000001000000000000000f/ab/abcd.g-1",
        "0000000000000001000000000000000f/ab/abcd.old",
        "_kvtier/lease/00000000000000000001",
        "a.b/0000000000000001000000000000000f/ab/abcd"
      })
  void readBlock_anyOtherName_isNone(String name) {
    assertFalse(ObjectNames.readBlock(name, read));
  }

  @Test
  void readBlock_keyLongerThanAnyBlocks_isNone() {
    String key = "ab".repeat(33);
    assertFalse(ObjectNames.readBlock("0000000000000001000000000000000f/ab/" + key, read));
  }
}
