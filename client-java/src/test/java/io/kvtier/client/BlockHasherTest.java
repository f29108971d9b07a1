package io.kvtier.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import java.io.IOException;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** The hashes against vectors that hashlib and cbor2 made, which the Python client reads too. */
final class BlockHasherTest {
  private static final Path VECTORS =
      Path.of("..", "client-py", "tests", "vectors", "sha256_cbor.json");

  @TestFactory
  Stream<DynamicTest> hash_vector_equals() throws IOException {
    JsonArray cases = Json.parse(Files.readString(VECTORS)).asObject().get("cases").asArray();
    return StreamSupport.stream(cases.spliterator(), false)
        .map(JsonValue::asObject)
        .map(vector -> DynamicTest.dynamicTest(vector.getString("name", "?"), () -> check(vector)));
  }

  private static void check(JsonObject vector) {
    byte[] noneHash = HexFormat.of().parseHex(vector.getString("none_hash", ""));
    int blockTokens = vector.getInt("block_tokens", 0);
    JsonValue seed = vector.get("seed");
    BlockHasher hasher =
        seed.isNull()
            ? BlockHasher.withNoneHash(blockTokens, noneHash)
            : BlockHasher.withSeed(blockTokens, seed.asString());
    assertArrayEquals(noneHash, hasher.noneHash());
    JsonArray tokenValues = vector.get("tokens").asArray();
    long[] tokens = new long[tokenValues.size()];
    for (int i = 0; i < tokens.length; i++) {
      tokens[i] = Long.parseUnsignedLong(tokenValues.get(i).toString());
    }
    List<@Nullable List<?>> extraKeys = new ArrayList<>();
    if (!vector.get("extra_keys").isNull()) {
      for (JsonValue block : vector.get("extra_keys").asArray()) {
        extraKeys.add(block.isNull() ? null : (List<?>) read(block));
      }
    }
    Keys keys = hasher.hash(tokens, extraKeys);
    List<String> hashes = new ArrayList<>();
    for (int i = 0; i < keys.count(); i++) {
      hashes.add('"' + HexFormat.of().formatHex(keys.get(i)) + '"');
    }
    assertEquals(vector.get("hashes").toString(), "[" + String.join(",", hashes) + "]");
  }

  /** An object with a member "hex" stands for bytes; a number with a point for a float. */
  private static @Nullable Object read(JsonValue value) {
    if (value.isNull()) {
      return null;
    }
    if (value.isBoolean()) {
      return value.asBoolean();
    }
    if (value.isString()) {
      return value.asString();
    }
    if (value.isObject()) {
      return HexFormat.of().parseHex(value.asObject().getString("hex", ""));
    }
    if (value.isArray()) {
      List<@Nullable Object> items = new ArrayList<>();
      value.asArray().forEach(item -> items.add(read(item)));
      return items;
    }
    String number = value.toString();
    return number.matches("-?[0-9]+") ? new BigInteger(number) : (Object) Double.valueOf(number);
  }

  @Test
  void next_chained_equalsHash() {
    BlockHasher hasher = BlockHasher.withSeed(2, "0");
    Keys keys = hasher.hash(new int[] {1, 2, 3, 4, 5});
    byte[] first = hasher.next(hasher.noneHash(), new int[] {1, 2}, null);
    assertEquals(2, keys.count());
    assertArrayEquals(first, keys.get(0));
    assertArrayEquals(hasher.next(first, new int[] {3, 4}, null), keys.get(1));
  }

  @Test
  void withRandomStart_twice_differs() {
    assertNotEquals(
        BlockHasher.withRandomStart(1).hash(new int[] {1}),
        BlockHasher.withRandomStart(1).hash(new int[] {1}));
  }

  @Test
  void hash_negativeToken_isMisuse() {
    BlockHasher hasher = BlockHasher.withSeed(1, "0");
    assertThrows(IllegalArgumentException.class, () -> hasher.hash(new int[] {-1}));
  }

  @Test
  void cbor_integers_shortest() {
    assertEquals("17", hex(23));
    assertEquals("1818", hex(24));
    assertEquals("1901f4", hex(500));
    assertEquals("20", hex(-1));
    assertEquals("3bffffffffffffffff", hex(BigInteger.TWO.pow(64).negate()));
    assertEquals("c249010000000000000000", hex(BigInteger.TWO.pow(64)));
    assertEquals(
        "c349010000000000000000", hex(BigInteger.TWO.pow(64).negate().subtract(BigInteger.ONE)));
    assertEquals("3b7fffffffffffffff", hex(Long.MIN_VALUE));
  }

  @Test
  void cbor_floats_shortest() {
    assertEquals("f93c00", hex(1.0));
    assertEquals("f98000", hex(-0.0));
    assertEquals("f97c00", hex(Double.POSITIVE_INFINITY));
    assertEquals("f97e00", hex(Double.NaN));
    assertEquals("fa47c35000", hex(100000.0));
    assertEquals("fb3ff199999999999a", hex(1.1));
  }

  @Test
  void cbor_unknownType_isMisuse() {
    assertThrows(IllegalArgumentException.class, () -> new Cbor().value(new Object()));
  }

  private static String hex(Object value) {
    return HexFormat.of().formatHex(new Cbor().value(value).toByteArray());
  }
}
