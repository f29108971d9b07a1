package io.kvtier.tiers.ledger;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.transfer.Transfer;
import io.kvtier.tiers.transfer.TroubleLog;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.LoggerFactory;

final class LedgerLegTest {
  @TempDir private Path directory;

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
    try (Ledger ledger = new RocksLedger(directory)) {
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

  @Test
  void run_groupsThatCannotBeEntered_areToldOfOnceWithTheCause() throws IOException {
    Logger logger = (Logger) LoggerFactory.getLogger(LedgerLegTest.class);
    ListAppender<ILoggingEvent> said = new ListAppender<>();
    said.start();
    logger.addAppender(said);
    try (Ledger ledger = new RocksLedger(directory)) {
      LedgerLeg leg =
          new LedgerLeg(
              ledger,
              true,
              () -> {
                throw new IOException("the device is full");
              },
              new TroubleLog(logger, "the device"));
      for (int i = 0; i < 10; i++) {
        leg.run(List.of(store(3, 10, "n")), done -> assertEquals(Status.IO_ERROR, done.status));
      }
    } finally {
      logger.detachAppender(said);
    }
    assertEquals(
        List.of("the device: the ledger takes no rows: the device is full"),
        said.list.stream().map(ILoggingEvent::getFormattedMessage).toList());
  }
}
