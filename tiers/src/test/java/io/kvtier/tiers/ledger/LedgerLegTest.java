package io.kvtier.tiers.ledger;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

final class LedgerLegTest {
  private static Transfer store(int namespaceId, long high, String text) {
    Transfer transfer = new Transfer(0);
    transfer.kind = Transfer.Kind.STORE;
    transfer.status = Status.OK;
    transfer.namespaceId = namespaceId;
    transfer.namespaceHigh = high;
    transfer.namespaceLow = 1;
    transfer.namespaceText = text;
    transfer.keyBytes = 8;
    transfer.length = 4096;
    return transfer;
  }

  /** A namespace that was forgotten leaves its id to another. */
  @Test
  void run_idOfAnotherNamespace_isRecordedAnew() throws IOException {
    Map<Integer, String> texts = new TreeMap<>();
    List<byte[]> fingerprints = new ArrayList<>();
    try (MemoryLedger ledger = new MemoryLedger(new MemoryLedger.Medium())) {
      LedgerLeg leg = new LedgerLeg(ledger, false, () -> {});
      for (Transfer transfer : List.of(store(3, 10, "first"), store(3, 20, "second"))) {
        leg.run(List.of(transfer), done -> assertEquals(Status.OK, done.status));
      }
      ledger.forEachNamespace((id, fingerprint, text) -> {
        texts.put(id, text);
        fingerprints.add(fingerprint);
      });
    }
    assertEquals(Map.of(3, "second"), texts);
    assertEquals(1, fingerprints.size());
    assertArrayEquals(LedgerLeg.fingerprint(20, 1), fingerprints.getFirst());
  }
}
