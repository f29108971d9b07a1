package io.kvtier.daemon.index.report;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.daemon.index.report.Troubles.Trouble;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Which parts are reported as troubles, and in which words. */
final class TroublesTest {
  private final Troubles troubles = new Troubles();

  @Test
  void all_everyPartIsWell_isEmpty() {
    troubles.drain(false);
    troubles.ledger("host", "");
    troubles.device("ssd", 0, "open", "");
    troubles.keeper(false);
    troubles.object(Map.of());
    troubles.object(
        Map.of(
            "takes_loads",
            true,
            "load_trouble",
            "",
            "takes_stores",
            true,
            "store_trouble",
            "",
            "probe_trouble",
            "",
            "keys_known",
            3L));
    assertEquals(List.of(), troubles.all());
  }

  @Test
  void all_aPartOfEachKindFails_namesPartAndReason() {
    troubles.drain(true);
    troubles.ledger("host", "no space left on device");
    troubles.device("ssd", 1, "fenced", "");
    troubles.device("ssd", 2, "given_up", "input/output error");
    troubles.object(Map.of("takes_loads", false, "load_trouble", "connection refused"));
    troubles.gpu(3, "a copy failed");
    assertEquals(
        List.of(
            new Trouble(
                "puts/drain",
                "the daemon is drained: it refuses new blocks until 'kvtier drain --off'"),
            new Trouble(
                "host/ledger",
                "the next start will not find blocks of new namespaces in memory: no space left on"
                    + " device"),
            new Trouble("ssd/1", "the device is fenced after errors, and tried again soon"),
            new Trouble(
                "ssd/2",
                "the device was given up, as it failed again and again: blocks leave memory without"
                    + " it, and it is tried again every few seconds: input/output error"),
            new Trouble("object/load", "the object store does not answer: connection refused"),
            new Trouble("gpu/3", "a copy failed")),
        troubles.all());
  }

  @Test
  void all_keeperOrPresenceLedgerIsGone_saysSo() {
    troubles.keeper(true);
    troubles.object(Map.of("ledger_trouble", "read-only file system"));
    assertEquals(
        List.of("host/keep", "object/ledger"), troubles.all().stream().map(Trouble::part).toList());
  }
}
