package io.kvtier.daemon.index.report;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.index.report.HealthReport.Trouble;
import io.kvtier.daemon.index.space.Drops;
import io.kvtier.daemon.index.verbs.Refusals;
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
    troubles.device("ssd", 0, "open", "", "");
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

  private void failOfEachKind() {
    troubles.drain(true);
    troubles.ledger("host", "no space left on device");
    troubles.device("ssd", 0, "open", "", "no space left on device");
    troubles.device("ssd", 1, "fenced", "", "");
    troubles.device("ssd", 2, "given_up", "input/output error", "");
    troubles.object(Map.of("takes_loads", false, "load_trouble", "connection refused"));
    troubles.gpu(3, "a copy failed");
  }

  @Test
  void all_aPartOfEachKindFails_namesPartAndReason() {
    failOfEachKind();
    assertEquals(
        List.of(
            "puts/drain: the daemon is drained: it refuses new blocks until 'kvtier drain --off'",
            "host/ledger: the next start will not find blocks of new namespaces in memory: no space"
                + " left on device",
            "ssd/0: transfers failed within the last seconds: no space left on device",
            "ssd/1: the device is fenced after errors, and tried again soon",
            "ssd/2: the device was given up, as it failed again and again: blocks leave memory"
                + " without it, and it is tried again every few seconds: input/output error",
            "object/load: the object store does not answer: connection refused",
            "gpu/3: a copy failed"),
        troubles.all().stream().map(trouble -> trouble.part() + ": " + trouble.reason()).toList());
  }

  @Test
  void all_putsAreRefused_namesWhatTheyLacked() {
    for (Refusals.Lack lack : Refusals.Lack.values()) {
      troubles.refusedPuts(lack, 0);
    }
    assertEquals(List.of(), troubles.all());
    for (Refusals.Lack lack : Refusals.Lack.values()) {
      troubles.refusedPuts(lack, 1);
    }
    // A client that holds as many blocks as one client may is refused by the operator's own limit.
    assertEquals(List.of("puts/memory", "puts/index", "puts/holds", "puts/gpu"), parts());
    assertTrue(
        troubles.all().getFirst().reason().startsWith("puts of 1 block were refused"),
        troubles.all()::toString);
  }

  @Test
  void all_blocksAreLost_namesWhy_butNotWhatAPolicyEvicts() {
    for (Drops.Reason reason : Drops.Reason.values()) {
      troubles.lost(reason, 2);
    }
    troubles.refusedByStore(2);
    troubles.incomplete(0);
    troubles.incomplete(2);
    assertEquals(
        List.of(
            "object/away",
            "object/lost",
            "object/deletes",
            "puts/unreadable",
            "puts/damaged",
            "object/refused",
            "puts/incomplete"),
        parts());
  }

  @Test
  void all_everyTrouble_hasACure() {
    failOfEachKind();
    troubles.keeper(true);
    troubles.object(Map.of("ledger_trouble", "read-only file system"));
    for (Refusals.Lack lack : Refusals.Lack.values()) {
      troubles.refusedPuts(lack, 1);
    }
    for (Drops.Reason reason : Drops.Reason.values()) {
      troubles.lost(reason, 1);
    }
    troubles.refusedByStore(1);
    troubles.incomplete(1);
    for (Trouble trouble : troubles.all()) {
      assertFalse(trouble.cure().isEmpty(), trouble.part());
    }
  }

  private List<String> parts() {
    return troubles.all().stream().map(Trouble::part).toList();
  }

  @Test
  void all_keeperOrPresenceLedgerIsGone_saysSo() {
    troubles.keeper(true);
    troubles.object(Map.of("ledger_trouble", "read-only file system"));
    assertEquals(List.of("host/keep", "object/ledger"), parts());
  }
}
