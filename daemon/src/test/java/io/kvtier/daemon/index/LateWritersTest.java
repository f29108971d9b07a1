package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.linux.ProcessId;
import io.kvtier.tiers.slots.Claim;
import io.kvtier.tiers.slots.ClaimNote;
import io.kvtier.tiers.transfer.Checksums;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

/** Clients that lose a slot, and may go on writing there. */
final class LateWritersTest {
  private static final int SLOT = IndexHarness.SLOT_BYTES;
  private static final int ZEROS = Checksums.of(MemorySegment.ofArray(new byte[SLOT]));
  private static final ProcessId BEFORE = new ProcessId(77, 1);

  /** A note in memory. */
  private static final class Note implements ClaimNote {
    final Map<Integer, Claim> claims = new TreeMap<>();
    final Set<Integer> doubtful = new TreeSet<>();

    @Override
    public void write(int place, int region, long offset, int bytes, ProcessId writer) {
      claims.put(place, new Claim(region, offset, bytes, writer));
    }

    @Override
    public void clear(int place) {
      claims.remove(place);
    }

    @Override
    public void doubt(int region) {
      doubtful.add(region);
    }
  }

  private static IndexHarness.Settings settings(int slabs, int slots) {
    return new IndexHarness.Settings(slabs, slots)
        .checksums(new IndexHarness.InlinePipeline(Checksums::run), 0);
  }

  private static IndexHarness.Client client(IndexHarness harness)
      throws IOException, ProtocolViolation {
    IndexHarness.Client client = harness.open();
    client.register();
    return client;
  }

  private static void pass(IndexHarness harness, long ns) {
    harness.nowNs += ns;
    for (int round = 0; round < 4; round++) {
      int ignored = harness.agent.doWork();
      harness.agent.checkInvariants();
    }
  }

  private static long late(IndexHarness harness) {
    pass(harness, 200_000_000L);
    return harness.counters.get(Counter.GAUGE_LATE_WRITES);
  }

  @Test
  void slotOfAClientOfBefore_isOnlyForCopies_untilItsProcessHasEnded()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness =
        new IndexHarness(settings(1, 2).late(new Claim(0, 0, SLOT, BEFORE)))) {
      IndexHarness.Client client = client(harness);
      IndexHarness.Answer inPlace = client.reserve(1, 2, false);
      assertEquals(1, inPlace.ids().size(), "the slot that somebody else may write was given out");
      IndexHarness.Answer copied = client.reserve(5, 1, true);
      assertEquals(Status.OK, copied.first());
      assertEquals(Status.STALE, client.commit(copied.ids().getFirst()), "without its checksum");
      assertEquals(Status.MISS, client.ask(Verb.LOOKUP, 5));
      client.sendIds(
          Verb.COMMIT,
          RequestDescriptor.FLAG_CHECKSUMS,
          1,
          client.reserve(5, 1, true).ids().getFirst(),
          ZEROS);
      assertEquals(Status.OK, client.work().first());
      assertEquals(Status.OK, client.commit(inPlace.ids().getFirst()));
      assertEquals(Status.OK, client.ask(Verb.DELETE, 5));
      assertEquals(1, late(harness));
      harness.gone.add(BEFORE);
      assertEquals(0, late(harness));
      assertEquals(Status.OK, client.reserve(6, 1, false).first(), "nobody writes there any more");
    }
  }

  @Test
  void slotsOfClientsOfBefore_cutInAnotherSize_areDoubtfulAsFarAsTheyTouch()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness =
        new IndexHarness(settings(1, 8).late(new Claim(0, 3 * SLOT, SLOT, BEFORE)))) {
      IndexHarness.Client client = harness.open();
      assertEquals(Status.OK, client.registerAs("larger", 2 * SLOT).status());
      assertEquals(3, client.reserve(1, 4, false).ids().size());
      assertEquals(1, client.reserve(5, 1, true).ids().size());
    }
  }

  @Test
  void reservation_thatIsNotCommittedInTime_isLost_andItsLateCommitIsStale()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(settings(1, 2))) {
      IndexHarness.Client hangs = client(harness);
      IndexHarness.Client other = client(harness);
      IndexHarness.Answer lost = hangs.reserve(1, 2, false);
      assertEquals(2, lost.ids().size());
      assertEquals(Status.PENDING, other.reserve(1, 1, true).first());
      pass(harness, IndexHarness.RESERVATION_NS - 200_000_000L);
      assertEquals(Status.PENDING, other.reserve(1, 1, true).first(), "too early");
      pass(harness, 400_000_000L);
      assertEquals(2, harness.counters.get(Counter.RESERVATIONS_EXPIRED));
      assertEquals(2, late(harness));
      other.put(1, ZEROS, true);
      assertEquals(Status.STALE, hangs.commit(lost.ids().getFirst()));
      assertEquals(1, late(harness), "he has said that he writes no more");
      assertEquals(Status.OK, other.ask(Verb.LOOKUP, 1));
      hangs.sendIds(Verb.ABORT, 0, 1, lost.ids().getLast());
      assertEquals(Status.STALE, hangs.work().first());
      assertEquals(0, late(harness));
      assertEquals(Status.OK, other.reserve(2, 1, false).first());
    }
  }

  @Test
  void sessionOfALostSlot_hangsUp_andWritesNoMore() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(settings(1, 2))) {
      IndexHarness.Client hangs = client(harness);
      IndexHarness.Client other = client(harness);
      assertEquals(2, hangs.reserve(1, 2, false).ids().size());
      pass(harness, IndexHarness.RESERVATION_NS + 200_000_000L);
      assertEquals(2, late(harness));
      harness.close(hangs);
      assertEquals(0, late(harness));
      assertEquals(2, other.reserve(1, 2, false).ids().size());
    }
  }

  @Test
  void sessionThatTheDaemonEnds_mayStillWriteItsSlots() throws IOException, ProtocolViolation {
    Note note = new Note();
    try (IndexHarness harness = new IndexHarness(settings(1, 2).claims(8, note))) {
      IndexHarness.Client hangs = client(harness);
      IndexHarness.Client other = client(harness);
      ProcessId process = IndexHarness.processOf(hangs.session.id());
      assertEquals(1, hangs.reserve(1, 1, false).ids().size());
      assertEquals(Set.of(process), writers(note));
      harness.cutOff(hangs);
      assertEquals(Set.of(process), writers(note), "the next daemon shall know of it, too");
      assertEquals(1, late(harness));
      assertEquals(1, other.reserve(1, 2, false).ids().size());
      harness.gone.add(process);
      assertEquals(0, late(harness));
      assertEquals(Set.of(IndexHarness.processOf(other.session.id())), writers(note));
      assertEquals(1, other.reserve(3, 1, false).ids().size());
      harness.close(other);
      assertEquals(Set.of(), writers(note));
    }
  }

  private static Set<ProcessId> writers(Note note) {
    Set<ProcessId> writers = new HashSet<>();
    note.claims.values().forEach(claim -> writers.add(claim.writer()));
    return writers;
  }

  @Test
  void moreLateWritersThanCanBeRemembered_wholeSlabIsDoubtful()
      throws IOException, ProtocolViolation {
    Note note = new Note();
    try (IndexHarness harness = new IndexHarness(settings(2, 4).claims(1, note))) {
      IndexHarness.Client hangs = client(harness);
      IndexHarness.Client other = client(harness);
      assertEquals(2, hangs.reserve(1, 2, false).ids().size());
      harness.cutOff(hangs);
      assertEquals(Set.of(0), note.doubtful);
      harness.gone.add(IndexHarness.processOf(hangs.session.id()));
      assertEquals(0, late(harness));
      IndexHarness.Answer inPlace = other.reserve(1, 8, false);
      assertEquals(4, inPlace.ids().size(), "those of the other slab");
      assertEquals(4, other.reserve(20, 4, true).ids().size());
    }
  }

  @Test
  void load_takesADoubtfulSlotOnlyWhereThereIsNoOther() throws IOException, ProtocolViolation {
    try (IndexHarness harness =
        new IndexHarness(
            settings(1, 2)
                .ssd(2, new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK))
                .admission("all")
                .late(new Claim(0, 0, SLOT, BEFORE)))) {
      IndexHarness.Client client = client(harness);
      IndexHarness.Client holds = client(harness);
      for (long key = 1; key <= 4; key++) {
        client.put(key, ZEROS, true);
        pass(harness, 1_000_000);
      }
      holds.sendKeys(Verb.ACQUIRE, 1, 1);
      assertEquals(Status.OK, holds.await().first());
      client.sendKeys(Verb.ACQUIRE, 2, 1);
      assertEquals(Status.OK, client.await().first(), "it waits for ever");
    }
  }

  @Test
  void cancel_ofWhatWasAnsweredAMomentAgo_givesItsGrantsBack()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(settings(1, 2))) {
      IndexHarness.Client client = client(harness);
      client.correlation = 5;
      IndexHarness.Answer unheard = client.reserve(1, 2, true);
      assertEquals(2, unheard.ids().size());
      client.correlation = 6;
      client.send(Verb.CANCEL, 0, 4, 0);
      assertEquals(Status.MISS, client.work().status());
      client.send(Verb.CANCEL, 0, 5, 0);
      assertEquals(Status.OK, client.work().status());
      assertEquals(2, client.reserve(3, 2, false).ids().size());
      client.sendIds(Verb.ABORT, 0, 1, unheard.ids().getFirst());
      assertEquals(Status.STALE, client.work().first());
      assertTrue(client.endReason() == Status.OK);
    }
  }
}
