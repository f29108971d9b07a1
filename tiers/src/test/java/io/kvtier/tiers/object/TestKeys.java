package io.kvtier.tiers.object;

import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;

/** Keys that follow from their numbers. */
final class TestKeys {
  private TestKeys() {}

  static CipherKey key(int number) {
    return new CipherKey(bytes(number));
  }

  static byte[] bytes(int number) {
    byte[] bytes = new byte[CipherKey.BYTES];
    new Random(number).nextBytes(bytes);
    return bytes;
  }

  /** One that writes with the first of these keys, and refuses what is not encrypted. */
  static ObjectCipher cipher(int writing, int... alsoReading) {
    return new ObjectCipher(keys(writing, alsoReading), false);
  }

  static CipherKeys keys(int writing, int... alsoReading) {
    List<CipherKey> older = IntStream.of(alsoReading).mapToObj(TestKeys::key).toList();
    return new CipherKeys(key(writing), older);
  }
}
