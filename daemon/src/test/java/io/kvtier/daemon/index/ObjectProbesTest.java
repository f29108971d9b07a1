package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import io.kvtier.daemon.index.source.ObjectProbes;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import io.kvtier.tiers.object.StoreResult;
import java.io.IOException;
import java.util.List;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

/** What a node that knows nothing asks of a store; each question is answered a round later. */
class ObjectProbesTest {
  private static final int PROBES = 64;

  private final StubObjects objects = new StubObjects(PROBES);

  private IndexHarness harness(IndexHarness.Settings settings) throws IOException {
    return new IndexHarness(
        settings
            .blocks(1024)
            .checksums(new IndexHarness.NoPipeline(), IndexHarness.SLOT_BYTES)
            .objects(objects.parts("all")));
  }

  private IndexHarness harness() throws IOException {
    return harness(new IndexHarness.Settings(1, 8));
  }

  private static IndexHarness.Client client(IndexHarness harness)
      throws IOException, ProtocolViolation {
    IndexHarness.Client client = harness.open(1 << 20);
    client.register();
    return client;
  }

  private static IndexHarness.Answer lookup(IndexHarness.Client client, int first, int count)
      throws ProtocolViolation {
    return client.lookup(LongStream.range(first, first + count).toArray());
  }

  private static void settle(IndexHarness harness) {
    for (int round = 0; round < 200 && !harness.agent.isIdle(); round++) {
      int ignored = harness.agent.doWork();
      harness.agent.checkInvariants();
    }
    assertTrue(harness.agent.isIdle());
  }

  @Test
  void lookup_prefixThatIsThere_isKnownWholeAfterOne() throws Exception {
    objects.has = key -> true;
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = client(harness);
      IndexHarness.Answer first = lookup(client, 0, 256);
      assertEquals(0, first.run());
      assertEquals(Status.PENDING, first.first());
      int rounds = 0;
      while (!harness.agent.isIdle()) {
        int before = objects.heads;
        int ignored = harness.agent.doWork();
        assertTrue(objects.heads - before <= PROBES, "more are under way than may be");
        rounds++;
      }
      assertTrue(rounds <= 10, rounds + " turns, one after the other");
      assertEquals(256, objects.heads);
      assertEquals(256, lookup(client, 0, 256).run());
      assertEquals(256, objects.heads, "what is known is not asked for again");
    }
  }

  @Test
  void lookup_nothingIsThere_costsAFewQuestions_andIsRemembered() throws Exception {
    objects.has = key -> false;
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = client(harness);
      assertEquals(Status.PENDING, lookup(client, 0, 1000).first());
      settle(harness);
      assertEquals(ObjectProbes.ASKED_FIRST, objects.heads);
      assertEquals(Status.MISS, lookup(client, 0, 1000).first());
      settle(harness);
      assertEquals(ObjectProbes.ASKED_FIRST, objects.heads, "what stands behind is of no use");
    }
  }

  @Test
  void lookup_partOfThePrefixIsThere_endsWhereItEnds() throws Exception {
    objects.has = key -> key < 20;
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = client(harness);
      assertEquals(0, lookup(client, 0, 1000).run());
      settle(harness);
      assertTrue(objects.heads < 3 * 20, objects.heads + " questions");
      assertEquals(20, lookup(client, 0, 1000).run());
    }
  }

  @Test
  void lookup_sameBlocksAgainAndAgain_areAskedForOnce() throws Exception {
    objects.has = key -> true;
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = client(harness);
      for (int i = 0; i < 20; i++) {
        assertTrue(lookup(client, 0, 100).run() <= 100);
      }
      settle(harness);
      assertEquals(100, objects.heads);
      lookup(client, 0, 120);
      settle(harness);
      assertEquals(120, objects.heads, "only what is new");
    }
  }

  @Test
  void lookup_storeFailsMeanwhile_asksAgainFromThere() throws Exception {
    objects.head = new StoreResult.Unavailable("for a moment");
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = client(harness);
      lookup(client, 0, 2);
      settle(harness);
      objects.has = key -> true;
      assertEquals(Status.PENDING, lookup(client, 0, 2).first());
      settle(harness);
      assertEquals(2, lookup(client, 0, 2).run());
    }
  }

  @Test
  void lookup_floodOfOneTenant_leavesOthersTheirShare() throws Exception {
    objects.has = key -> true;
    try (IndexHarness harness =
        harness(
            new IndexHarness.Settings(2, 8)
                .tenants(new TenantConfig("blue", List.of(), List.of(), 1, 0, 1)))) {
      IndexHarness.Client silly = client(harness);
      IndexHarness.Client blue = harness.open(1 << 20, new Grant("blue", Role.WRITE, 1));
      int namespace = (int) blue.registerAs("blue", IndexHarness.SLOT_BYTES).value();
      for (int i = 0; i < 40; i++) {
        lookup(silly, 1000 * i, 1000);
      }
      int before = objects.heads;
      int ignored = harness.agent.doWork();
      assertTrue(objects.heads - before <= PROBES / 2, "no more than its share is under way");
      blue.sendKey(Verb.LOOKUP, namespace, 5);
      assertEquals(Status.PENDING, blue.work().first());
      ignored = harness.agent.doWork();
      blue.sendKey(Verb.LOOKUP, namespace, 5);
      assertEquals(Status.OK, blue.work().first(), "a turn later");
    }
  }

  @Test
  void lookup_moreThanCanBeSought_isRefused() throws Exception {
    objects.has = key -> true;
    try (IndexHarness harness = harness()) {
      IndexHarness.Client client = client(harness);
      int each = 2000;
      Status last = Status.OK;
      for (int i = 0; i < 2 * ObjectProbes.SOUGHT_MAX / each; i++) {
        last = lookup(client, each * i, each).last();
      }
      assertEquals(Status.MISS, last);
      assertTrue(objects.heads < 2 * ObjectProbes.SOUGHT_MAX / each * PROBES);
    }
  }

  @Test
  void acquire_moreUnknownBlocksThanAreAskedForAtATime_allAreFound() throws Exception {
    StubObjects few = new StubObjects(1);
    few.has = key -> true;
    try (IndexHarness harness =
        new IndexHarness(
            new IndexHarness.Settings(1, 64)
                .blocks(1024)
                .checksums(new IndexHarness.NoPipeline(), IndexHarness.SLOT_BYTES)
                .objects(few.parts("all")))) {
      IndexHarness.Client client = client(harness);
      client.sendKeys(Verb.ACQUIRE, 0, 40);
      client.await();
      assertEquals(40, few.heads);
      assertEquals(40, few.loads, "each that is there is asked for");
    }
  }
}
