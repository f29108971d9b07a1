package io.kvtier.tiers.ledger;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;

/** What a ledger should hold, on plain maps. */
final class LedgerOracle {
  final Map<Long, LedgerEntry> rows = new HashMap<>();
  final Map<Integer, String> namespaces = new HashMap<>();
  String layout = "";

  LedgerOracle copy() {
    LedgerOracle copy = new LedgerOracle();
    copy.rows.putAll(rows);
    copy.namespaces.putAll(namespaces);
    copy.layout = layout;
    return copy;
  }

  /** Some entry, its fields all over their range. */
  static LedgerEntry entry(SplittableRandom random) {
    LedgerEntry entry = new LedgerEntry();
    entry.keyBytes = random.nextInt(LedgerEntry.KEY_BYTES_MAX + 1);
    for (int i = 0; i < entry.keyBytes; i++) {
      entry.key[i] = (byte) random.nextInt();
    }
    entry.group = random.nextInt();
    entry.namespaceHigh = random.nextLong();
    entry.namespaceLow = random.nextLong();
    entry.length = random.nextInt();
    entry.checksum = random.nextInt();
    entry.generation = random.nextLong();
    entry.parent = random.nextLong();
    entry.depth = random.nextInt();
    // Most blocks have none, or some tokens; a few all that there may be.
    int annotationBytes =
        switch (random.nextInt(8)) {
          case 0 -> LedgerEntry.ANNOTATION_BYTES_MAX;
          case 1, 2, 3 -> 0;
          default -> random.nextInt(200);
        };
    entry.annotate(annotationBytes);
    for (int i = 0; i < annotationBytes; i++) {
      entry.annotation[i] = (byte) random.nextInt();
    }
    return entry;
  }

  static byte[] fingerprint(int id) {
    return ByteBuffer.allocate(16).putInt(3, id).array();
  }

  void assertHeldBy(Ledger ledger) throws IOException {
    Map<Long, LedgerEntry> found = new HashMap<>();
    ledger.forEach((place, entry) -> found.put(place, entry.copy()));
    assertEquals(rows, found);
    Map<Integer, String> foundNamespaces = new HashMap<>();
    ledger.forEachNamespace((id, fingerprint, text) -> {
      assertEquals(ByteBuffer.wrap(fingerprint(id)), ByteBuffer.wrap(fingerprint));
      foundNamespaces.put(id, text);
    });
    assertEquals(namespaces, foundNamespaces);
    assertEquals(layout, ledger.layout());
  }
}
