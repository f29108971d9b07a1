package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.index.report.RequestTold;
import io.kvtier.daemon.index.session.RequestOrigin;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Records;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.TierId;
import io.kvtier.protocol.TraceContext;
import io.kvtier.protocol.Verb;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class RequestTapTest {
  private static final long HIGH = 0x4bf92f3577b34da6L;
  private static final long LOW = 0xa3ce929d0e0e4736L;
  private static final long CALLER = 0x00f067aa0ba902b7L;

  /** A request of one key, or of one id, with a context behind it. */
  private static void send(IndexHarness.Client client, Verb verb, long word, int traceFlags)
      throws ProtocolViolation {
    long[] body = new long[1 + RequestDescriptor.CONTEXT_BYTES / Long.BYTES];
    body[0] = word;
    new TraceContext(HIGH, LOW, CALLER, traceFlags)
        .write(MemorySegment.ofArray(body), Long.BYTES, IndexHarness.NOW_NS - 1000);
    client.sendWords(
        verb, RequestDescriptor.FLAG_CONTEXT, Records.hasKeys(verb.body()) ? 8 : 0, 1, body);
  }

  private static List<RequestTold> told(IndexHarness harness) {
    List<RequestTold> all = new ArrayList<>();
    for (RequestTold one = harness.requests.told().poll();
        one != null;
        one = harness.requests.told().poll()) {
      all.add(one);
    }
    return all;
  }

  private static RequestTold.Span span(List<RequestTold> all, String name) {
    for (RequestTold one : all) {
      if (one instanceof RequestTold.Span span && span.name().equals(name)) {
        return span;
      }
    }
    throw new AssertionError("no span " + name + " in " + all);
  }

  private static void run(Transfer transfer, Status status) {
    transfer.status = status;
    transfer.elapsedNs = 70;
  }

  private static IndexHarness.Settings withSsd(Status loads) {
    return new IndexHarness.Settings(1, 2)
        .checksums(new IndexHarness.InlinePipeline(Checksums::run), 0)
        .ssd(
            2,
            new IndexHarness.InlinePipeline(
                transfer -> run(transfer, transfer.kind == Transfer.Kind.LOAD ? loads : Status.OK)))
        .admission("all");
  }

  /** Puts a block in a context, and has the block leave memory for SSD. */
  private static void putAndDemote(IndexHarness harness, IndexHarness.Client client)
      throws ProtocolViolation {
    send(client, Verb.RESERVE, 1, TraceContext.FLAG_SAMPLED);
    long id = client.work().ids().getFirst();
    send(client, Verb.COMMIT, id, TraceContext.FLAG_SAMPLED);
    assertEquals(Status.OK, client.await().first());
    for (int i = 0; i < 8; i++) {
      int ignored = harness.agent.doWork();
    }
    client.send(Verb.FLUSH, 0, 0, 0);
    assertEquals(Status.OK, client.await().status());
    assertEquals(Status.OK, client.admin("evict 1"));
    for (int i = 0; i < 8; i++) {
      int ignored = harness.agent.doWork();
    }
  }

  @Test
  void acquire_sampledAndOnSsd_hasASpanAndOneOfItsRead() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(withSsd(Status.OK).tracing(0))) {
      IndexHarness.Client client = harness.open();
      client.register();
      putAndDemote(harness, client);
      List<RequestTold> put = told(harness);
      RequestTold.Span commit = span(put, "kvtier.commit");
      assertEquals(CALLER, commit.ids().parentId());
      RequestTold.Span checksum = span(put, "host.checksum");
      assertEquals(commit.ids().spanId(), checksum.ids().parentId());
      // No request waited for the store: it belongs to the request that wrote the block.
      assertEquals(commit.ids().spanId(), span(put, "ssd.write").ids().parentId());

      send(client, Verb.ACQUIRE, 1, TraceContext.FLAG_SAMPLED);
      assertEquals(Status.OK, client.await().first());
      List<RequestTold> got = told(harness);
      RequestTold.Span acquire = span(got, "kvtier.acquire");
      assertEquals(HIGH, acquire.traceHigh());
      assertEquals(LOW, acquire.traceLow());
      assertEquals("test", acquire.work().namespace());
      assertEquals(1, acquire.work().blocks());
      assertEquals(1, acquire.work().done());
      assertEquals(IndexHarness.SLOT_BYTES, acquire.work().bytes());
      assertEquals(1000, acquire.work().waitNs());
      assertEquals(IndexHarness.NOW_NS - 1000, acquire.startNs());
      RequestTold.Span read = span(got, "ssd.read");
      assertEquals(acquire.ids().spanId(), read.ids().parentId());
      assertNotEquals(acquire.ids().spanId(), read.ids().spanId());
      assertEquals(IndexHarness.SLOT_BYTES, read.work().bytes());
      assertFalse(read.isRequest());
      assertEquals(2, got.size(), got.toString());
    }
  }

  @Test
  void acquire_withAnIdThatIsNotSampled_linesAloneTellOfIt() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(withSsd(Status.CORRUPT).tracing(0))) {
      IndexHarness.Client client = harness.open();
      client.register();
      putAndDemote(harness, client);
      var _ = told(harness);
      send(client, Verb.ACQUIRE, 1, 0);
      assertEquals(Status.MISS, client.await().first());
      List<RequestTold> got = told(harness);
      assertEquals(
          List.of(
              new RequestTold.Line(
                  HIGH, LOW, true, "ACQUIRE: ssd.read of a block failed: CORRUPT")),
          got);
    }
  }

  @Test
  void request_refused_lineNamesItsId() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(new IndexHarness.Settings(1, 2))) {
      IndexHarness.Client client = harness.open();
      send(client, Verb.ACQUIRE, 1, TraceContext.FLAG_SAMPLED);
      assertEquals(Status.NAMESPACE_UNKNOWN, client.work().status());
      List<RequestTold> all = told(harness);
      assertEquals(1, all.size(), all.toString());
      RequestTold.Line line = (RequestTold.Line) all.getFirst();
      assertEquals(HIGH, line.traceHigh());
      assertTrue(
          line.text().startsWith("ACQUIRE refused: NAMESPACE_UNKNOWN: namespace 0"), line.text());
    }
  }

  @Test
  void request_withoutContext_isToldOfOnlyWhereTheShareHasIt()
      throws IOException, ProtocolViolation {
    for (int share : new int[] {0, 1}) {
      try (IndexHarness harness =
          new IndexHarness(new IndexHarness.Settings(1, 2).tracing(share))) {
        IndexHarness.Client client = harness.open();
        client.register();
        assertEquals(Status.MISS, client.ask(Verb.LOOKUP, 1));
        List<RequestTold> all = told(harness);
        assertEquals(share == 0 ? 0 : 2, all.size(), all.toString());
        if (share == 1) {
          RequestTold.Span lookup = span(all, "kvtier.lookup");
          assertEquals(0, lookup.ids().parentId());
          assertEquals(0, lookup.work().done());
          assertEquals(1, lookup.work().blocks());
        }
      }
    }
  }

  @Test
  void request_withIdsOfZeros_endsTheSession() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(new IndexHarness.Settings(1, 2))) {
      IndexHarness.Client client = harness.open();
      client.sendWords(Verb.PING, RequestDescriptor.FLAG_CONTEXT, 0, 0, new long[5]);
      int ignored = harness.agent.doWork();
      assertEquals(Status.INVALID_ARGUMENT, client.endReason());
    }
  }

  @Test
  void request_thatCannotHaveBeenWrittenThen_waitedForNothing()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(new IndexHarness.Settings(1, 2).tracing(0))) {
      IndexHarness.Client client = harness.open();
      for (long written : new long[] {0, -1, Long.MIN_VALUE, Long.MAX_VALUE}) {
        long[] body = new long[5];
        new TraceContext(HIGH, LOW, CALLER, 1).write(MemorySegment.ofArray(body), 0, written);
        client.sendWords(Verb.PING, RequestDescriptor.FLAG_CONTEXT, 0, 0, body);
        assertEquals(Status.OK, client.work().status());
        RequestTold.Span ping = span(told(harness), "kvtier.ping");
        assertEquals(0, ping.work().waitNs());
        assertEquals(IndexHarness.NOW_NS, ping.startNs());
      }
    }
  }

  @Test
  void queue_thatNobodyTakesFrom_countsWhatIsLost() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(new IndexHarness.Settings(1, 2).tracing(1))) {
      IndexHarness.Client client = harness.open();
      int capacity = harness.requests.told().capacity();
      for (int i = 0; i < capacity + 3; i++) {
        client.send(Verb.PING, 0, 0, 0);
        assertNotNull(client.work());
      }
      harness.nowNs += 1_000_000_000;
      int ignored = harness.agent.doWork();
      assertEquals(3, harness.counters.get(Counter.SPANS_DROPPED));
    }
  }

  private static void rounds(IndexHarness harness) {
    for (int i = 0; i < 8; i++) {
      int ignored = harness.agent.doWork();
    }
  }

  @Test
  void evicted_numberIsAnotherBlocks_thatOneIsNotOnTheAccountOfTheFirst()
      throws IOException, ProtocolViolation {
    StubObjects objects = new StubObjects();
    // The blocks are never stored in every tier.
    objects.answer = Status.DENIED;
    IndexHarness.Settings settings = withSsd(Status.OK).objects(objects.parts("all")).tracing(0);
    try (IndexHarness harness = new IndexHarness(settings)) {
      IndexHarness.Client client = harness.open();
      client.register();
      putAndDemote(harness, client);
      assertNotNull(span(told(harness), "ssd.write"));
      for (int key = 2; key < 40; key++) {
        client.put(key, 0);
        rounds(harness);
      }
      client.sendKeys(Verb.ACQUIRE, 1, 1);
      assertEquals(Status.MISS, client.await().first());
      assertTrue(harness.directory().highWater() < 20, "no number came again");
      assertEquals(List.of(), told(harness));
      assertFalse(harness.requests.isInterested());
    }
  }

  @Test
  void stored_inEveryTier_isOnTheAccountOfWhoWroteItNoLonger()
      throws IOException, ProtocolViolation {
    StubObjects objects = new StubObjects();
    for (boolean hasObjects : new boolean[] {false, true}) {
      IndexHarness.Settings settings = withSsd(Status.OK).tracing(0);
      try (IndexHarness harness =
          new IndexHarness(hasObjects ? settings.objects(objects.parts("evicted")) : settings)) {
        IndexHarness.Client client = harness.open();
        client.register();
        putAndDemote(harness, client);
        RequestTold.Span commit = span(told(harness), "kvtier.commit");
        assertEquals(hasObjects, harness.requests.isInterested());
        for (int key = 2; key < 20; key++) {
          client.put(key, 0);
          rounds(harness);
        }
        assertFalse(harness.requests.isInterested());
        List<RequestTold> later = told(harness);
        assertEquals(hasObjects ? 1 : 0, later.size(), later.toString());
        if (hasObjects) {
          assertEquals(commit.ids().spanId(), span(later, "object.put").ids().parentId());
        }
      }
    }
  }

  @Test
  void wrote_moreThanAreKept_theFirstIsForgotten() throws IOException {
    try (IndexHarness harness = new IndexHarness(withSsd(Status.OK).tracing(0))) {
      RequestOrigin origin = new RequestOrigin();
      origin.traceHigh = HIGH;
      origin.traceLow = LOW;
      origin.spanId = CALLER;
      origin.isTraced = true;
      for (int block = 0; block <= 4096; block++) {
        harness.requests.wrote(block, origin);
      }
      Transfer transfer = new Transfer(0);
      transfer.kind = Transfer.Kind.STORE;
      for (int block = 0; block < 2; block++) {
        transfer.block = block;
        harness.requests.settled(transfer, TierId.SSD, false);
        assertEquals(block, told(harness).size());
      }
    }
  }

  @Test
  void scrub_ofABlockThatAGetWaitsFor_isNotOnItsAccount() throws IOException, ProtocolViolation {
    for (Status read : List.of(Status.OK, Status.CORRUPT)) {
      IndexHarness.InlinePipeline ssd =
          new IndexHarness.InlinePipeline(
              transfer -> run(transfer, transfer.kind == Transfer.Kind.LOAD ? read : Status.OK));
      try (IndexHarness harness =
          new IndexHarness(
              new IndexHarness.Settings(1, 2)
                  .checksums(new IndexHarness.InlinePipeline(Checksums::run), 0)
                  .ssd(2, ssd)
                  .admission("all")
                  .scrubbing(1 << 20)
                  .tracing(0))) {
        IndexHarness.Client client = harness.open();
        client.register();
        ssd.holds = transfer -> transfer.kind == Transfer.Kind.LOAD;
        putAndDemote(harness, client);
        for (int round = 0; ssd.inFlight() == 0; round++) {
          assertTrue(round < 100, "nothing is read in the background");
          harness.nowNs += 1_000_000;
          int ignored = harness.agent.doWork();
        }
        var _ = told(harness);
        send(client, Verb.ACQUIRE, 1, TraceContext.FLAG_SAMPLED);
        rounds(harness);
        assertEquals(2, ssd.inFlight());
        ssd.endFirst();
        rounds(harness);
        assertEquals(1, harness.counters.get(Counter.SCRUBBED));
        assertEquals(List.of(), told(harness));
        ssd.end();
        assertEquals(read == Status.OK ? Status.OK : Status.MISS, client.await().first());
        assertNotNull(span(told(harness), "ssd.read"));
      }
    }
  }

  @Test
  void admin_refused_spanAndLineSayHowItEnded() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(new IndexHarness.Settings(1, 2).tracing(1))) {
      IndexHarness.Client client = harness.open(1 << 20);
      Status status = client.admin("nonsense");
      assertNotEquals(Status.OK, status);
      List<RequestTold> all = told(harness);
      assertEquals(status, span(all, "kvtier.admin").status());
      RequestTold.Line line = (RequestTold.Line) all.getFirst();
      assertTrue(line.text().startsWith("ADMIN refused: " + status), line.text());
      assertEquals(Status.OK, client.admin("drain off"));
      all = told(harness);
      assertEquals(1, all.size(), all.toString());
      assertEquals(Status.OK, span(all, "kvtier.admin").status());
    }
  }
}
