package io.kvtier.daemon.index;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.access.Grant;
import io.kvtier.daemon.config.KvtierdConfig.TenantConfig;
import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.report.EventRing;
import io.kvtier.protocol.Counter;
import io.kvtier.protocol.Protocol;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.RequestDescriptor;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import io.kvtier.protocol.access.Role;
import io.kvtier.tiers.ledger.LedgerEntry;
import io.kvtier.tiers.ledger.LedgerLeg;
import io.kvtier.tiers.transfer.Checksums;
import io.kvtier.tiers.transfer.Pipeline;
import io.kvtier.tiers.transfer.Transfer;
import java.io.IOException;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** The tenants' parts of the tiers, and what tenants see of each other. */
class TenantsTest {
  private static final int SLOTS = 8;
  private static final int RING = Protocol.RING_BYTES_MIN;
  private static final Grant BLUE = new Grant("blue", Role.WRITE, 1);
  private static final Grant GREEN = new Grant("green", Role.WRITE, 2);
  private static final Grant OTHERS = new Grant("others", Role.WRITE, Grant.NO_TENANT);

  /**
   * Of four slabs and four files, blue has one each, green has two each, and clients without a
   * tenant have the last ones.
   */
  private static IndexHarness harness(int files, Pipeline ssd) throws IOException {
    return new IndexHarness(settings(files, ssd));
  }

  private static IndexHarness.Settings settings(int files, Pipeline ssd) {
    return settings(SLOTS, files, ssd);
  }

  private static IndexHarness.Settings settings(int slots, int files, Pipeline ssd) {
    return new IndexHarness.Settings(4, slots)
        .checksums(new IndexHarness.InlinePipeline(Checksums::run), IndexHarness.SLOT_BYTES)
        .ssd(files, ssd)
        .tenants(
            new TenantConfig("blue", List.of(), List.of(), 1, Math.min(1, files), 1),
            new TenantConfig("green", List.of(), List.of(), 2, Math.min(2, files), 2));
  }

  private static IndexHarness memory() throws IOException {
    return harness(0, new IndexHarness.NoPipeline());
  }

  private static int register(IndexHarness.Client client) throws ProtocolViolation {
    IndexHarness.Answer answer = client.registerAs("model", IndexHarness.SLOT_BYTES);
    assertEquals(Status.OK, answer.status());
    return (int) answer.value();
  }

  private static Status put(IndexHarness.Client client, int namespace, long key)
      throws ProtocolViolation {
    client.sendKey(Verb.RESERVE, namespace, key);
    IndexHarness.Answer reserved = client.await();
    if (reserved.ids().isEmpty()) {
      return reserved.first();
    }
    client.sendIds(Verb.COMMIT, 0, 1, reserved.ids().getFirst());
    return client.await().first();
  }

  private static Status ask(IndexHarness.Client client, Verb verb, int namespace, long key)
      throws ProtocolViolation {
    client.sendKey(verb, namespace, key);
    return client.await().first();
  }

  private static long there(IndexHarness.Client client, int namespace, int keys) {
    return IntStream.range(0, keys)
        .filter(key -> {
          try {
            return ask(client, Verb.LOOKUP, namespace, key) == Status.OK;
          } catch (ProtocolViolation e) {
            throw new AssertionError(e);
          }
        })
        .count();
  }

  @Test
  void put_greedyTenant_leavesOthersTheirBlocks() throws IOException, ProtocolViolation {
    try (IndexHarness harness = memory()) {
      IndexHarness.Client modest = harness.open(RING, BLUE);
      IndexHarness.Client greedy = harness.open(RING, GREEN);
      int ofModest = register(modest);
      int ofGreedy = register(greedy);
      for (int key = 0; key < SLOTS; key++) {
        assertEquals(Status.OK, put(modest, ofModest, key));
      }
      for (int key = 0; key < 10 * SLOTS; key++) {
        assertEquals(Status.OK, put(greedy, ofGreedy, key));
        harness.agent.checkInvariants();
      }
      assertEquals(SLOTS, there(modest, ofModest, SLOTS));
      assertEquals(2 * SLOTS, there(greedy, ofGreedy, 10 * SLOTS));
    }
  }

  @Test
  void put_allOwnBlocksHeld_isBusyThoughOthersHaveRoom() throws IOException, ProtocolViolation {
    try (IndexHarness harness = memory()) {
      IndexHarness.Client blue = harness.open(RING, BLUE);
      int namespace = register(blue);
      for (int key = 0; key < SLOTS; key++) {
        assertEquals(Status.OK, put(blue, namespace, key));
        assertEquals(Status.OK, ask(blue, Verb.PIN, namespace, key));
      }
      blue.sendKey(Verb.RESERVE, namespace, 99);
      int ignored = harness.agent.doWork();
      assertFalse(blue.hasAnswer(), "it got a slot of another tenant's");
      harness.nowNs += 10_000_000_000L;
      assertEquals(Status.DEADLINE, blue.await().first());
    }
  }

  @Test
  void put_recordsUsedUpBeforeMemory_ownColdestGoes() throws IOException, ProtocolViolation {
    for (int files : new int[] {0, 4}) {
      Pipeline ssd = new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK);
      // Blue may have 4 records, and has 8 slots.
      try (IndexHarness harness = new IndexHarness(settings(files, ssd).blocks(16))) {
        IndexHarness.Client blue = harness.open(RING, BLUE);
        IndexHarness.Client green = harness.open(RING, GREEN);
        int ofBlue = register(blue);
        int ofGreen = register(green);
        assertEquals(Status.OK, put(green, ofGreen, 1));
        for (int key = 0; key < 5 * SLOTS; key++) {
          assertEquals(Status.OK, put(blue, ofBlue, key), "key " + key + ", files " + files);
          assertEquals(Status.OK, ask(blue, Verb.LOOKUP, ofBlue, key));
          harness.agent.checkInvariants();
        }
        assertEquals(4, there(blue, ofBlue, 5 * SLOTS));
        assertEquals(Status.OK, ask(green, Verb.LOOKUP, ofGreen, 1));
      }
    }
  }

  @Test
  void put_recordsUsedUpByWhatIsHeld_isBusyUntilItIsNot() throws IOException, ProtocolViolation {
    Pipeline ssd = new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK);
    try (IndexHarness harness = new IndexHarness(settings(4, ssd).blocks(16))) {
      IndexHarness.Client blue = harness.open(RING, BLUE);
      int namespace = register(blue);
      for (int key = 0; key < 4; key++) {
        assertEquals(Status.OK, put(blue, namespace, key));
        assertEquals(Status.OK, ask(blue, Verb.PIN, namespace, key));
      }
      assertEquals(Status.BUSY, put(blue, namespace, 99));
      assertEquals(Status.OK, ask(blue, Verb.UNPIN, namespace, 2));
      assertEquals(Status.OK, put(blue, namespace, 99));
      assertEquals(Status.MISS, ask(blue, Verb.LOOKUP, namespace, 2));
    }
  }

  /**
   * The rows of an earlier start without tenants, on the last file, which still belongs to no
   * tenant.
   */
  private static MemoryLedger rowsOfNobody(int rows) throws IOException {
    Namespaces.Namespace namespace =
        new Namespaces(Tenants.NONE)
            .add(0, "model", IndexHarness.SLOT_BYTES, Map.of("name", "model"));
    MemoryLedger ledger = new MemoryLedger(new MemoryLedger.Medium());
    ledger.recordNamespace(
        0, LedgerLeg.fingerprint(namespace.high(), namespace.low()), namespace.text());
    for (int i = 0; i < rows; i++) {
      LedgerEntry entry = new LedgerEntry();
      entry.key[0] = (byte) i;
      entry.keyBytes = Long.BYTES;
      entry.namespaceHigh = namespace.high();
      entry.namespaceLow = namespace.low();
      entry.length = IndexHarness.SLOT_BYTES;
      entry.generation = i;
      ledger.record(Transfer.place(3, 2L * IndexHarness.SLOT_BYTES * i), entry);
    }
    ledger.commit(false);
    return ledger;
  }

  @Test
  void put_recordsOfAnEarlierStartBeyondTheShare_makeRoomForATenant() throws Exception {
    Pipeline ssd = new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK);
    // Clients without a tenant may have 4 records, blue 4, green 8.
    try (IndexHarness harness = new IndexHarness(settings(4, ssd).blocks(16))) {
      harness.agent.recover(List.of(List.of(rowsOfNobody(SLOTS))), 0);
      assertEquals(SLOTS, harness.counters.get(Counter.FOUND_SSD));
      IndexHarness.Client green = harness.open(RING, GREEN);
      int ofGreen = register(green);
      for (int key = 0; key < 8; key++) {
        assertEquals(Status.OK, put(green, ofGreen, key));
      }
      IndexHarness.Client blue = harness.open(RING, BLUE);
      int ofBlue = register(blue);
      for (int key = 0; key < 4; key++) {
        assertEquals(Status.OK, put(blue, ofBlue, key), "key " + key);
      }
      assertEquals(4, there(blue, ofBlue, 4));
      assertEquals(8, there(green, ofGreen, 8));
      IndexHarness.Client other = harness.open(RING, OTHERS);
      int ofNobody = register(other);
      for (int key = 0; key < SLOTS; key++) {
        Status expected = key < 4 ? Status.MISS : Status.OK;
        assertEquals(expected, ask(other, Verb.LOOKUP, ofNobody, key), "the coldest go");
      }
      harness.agent.checkInvariants();
    }
  }

  @Test
  void trim_recordsFarBeyondTheShare_goByAndByThoughNobodyAsks() throws Exception {
    Pipeline ssd = new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK);
    // Clients without a tenant may have 12 records.
    try (IndexHarness harness = new IndexHarness(settings(64, 4, ssd).blocks(48))) {
      harness.agent.recover(List.of(List.of(rowsOfNobody(48))), 0);
      int rounds = 0;
      while (harness.directory().recordsOfTenant(Grant.NO_TENANT) > 12) {
        int ignored = harness.agent.doWork();
        rounds++;
        assertTrue(rounds < 10, "it takes too long");
        boolean isMore = harness.directory().recordsOfTenant(Grant.NO_TENANT) > 12;
        assertEquals(isMore, harness.agent.sleepMsMax() == 1);
        harness.nowNs += 1_000_000;
      }
      assertTrue(rounds > 1, "one round has done it all");
      harness.agent.checkInvariants();
    }
  }

  @Test
  void trim_nothingCanGo_isTriedAgainOnlyAfterAWhile() throws Exception {
    Pipeline ssd = new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK);
    try (IndexHarness harness = new IndexHarness(settings(64, 4, ssd).blocks(48))) {
      harness.agent.recover(List.of(List.of(rowsOfNobody(48))), 0);
      IndexHarness.Client operator = harness.open(1 << 20);
      int pinned = 0;
      for (int i = 0; i < 48; i++) {
        pinned += operator.admin(pin("pin", i)) == Status.OK ? 1 : 0;
      }
      assertTrue(pinned > 12, "the rest was gone before it could be pinned");
      harness.nowNs += 1_000_000;
      int ignored = harness.agent.doWork();
      assertEquals(pinned, harness.directory().recordsOfTenant(Grant.NO_TENANT));
      assertTrue(harness.agent.sleepMsMax() > 1);
      assertEquals(Status.OK, operator.admin(pin("unpin", 47)));
      harness.nowNs += 50_000_000;
      ignored = harness.agent.doWork();
      assertEquals(pinned, harness.directory().recordsOfTenant(Grant.NO_TENANT));
      harness.nowNs += 50_000_000;
      ignored = harness.agent.doWork();
      assertEquals(pinned - 1, harness.directory().recordsOfTenant(Grant.NO_TENANT));
    }
  }

  private static String pin(String verb, int row) {
    return String.format(Locale.ROOT, "%s 0 %02x00000000000000 model", verb, row);
  }

  @Test
  void register_sameNameInTwoTenants_areTwoNamespacesOfWhichEachSeesItsOwn()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = memory()) {
      IndexHarness.Client blue = harness.open(RING, BLUE);
      IndexHarness.Client green = harness.open(RING, GREEN);
      IndexHarness.Client other = harness.open(RING, OTHERS);
      int ofBlue = register(blue);
      int ofGreen = register(green);
      assertEquals(Status.OK, put(blue, ofBlue, 1));
      assertEquals(Status.OK, ask(blue, Verb.LOOKUP, ofBlue, 1));
      assertEquals(Status.MISS, ask(green, Verb.LOOKUP, ofGreen, 1));
      assertEquals(Status.MISS, ask(other, Verb.LOOKUP, register(other), 1));
      // A tenant's namespace can't be used by its number either, with any verb.
      for (Verb verb : List.of(Verb.LOOKUP, Verb.ACQUIRE, Verb.DELETE, Verb.PIN)) {
        green.sendKey(verb, ofBlue, 1);
        assertEquals(Status.NAMESPACE_UNKNOWN, green.await().status());
      }
      // The properties of a namespace do not show either that it exists.
      assertEquals(Status.OK, green.registerAs("model2", 2 * IndexHarness.SLOT_BYTES).status());
    }
  }

  @Test
  void put_everyBlock_liesInItsTenantsSlabs() throws IOException, ProtocolViolation {
    try (IndexHarness harness = memory()) {
      int[] first = {3, 0, 1};
      int[] last = {3, 0, 2};
      List<Grant> grants = List.of(OTHERS, BLUE, GREEN);
      for (int tenant = 0; tenant < grants.size(); tenant++) {
        IndexHarness.Client client = harness.open(RING, grants.get(tenant));
        int namespace = register(client);
        for (int key = 0; key < 5 * SLOTS; key++) {
          assertEquals(Status.OK, put(client, namespace, key));
        }
        for (int slab = 0; slab < 4; slab++) {
          assertEquals(
              slab >= first[tenant] && slab <= last[tenant], client.session.mayWrite(slab));
        }
      }
    }
  }

  @Test
  void evict_toSsd_takesPlaceInOwnFilesOnly() throws IOException, ProtocolViolation {
    try (IndexHarness harness =
        harness(4, new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK))) {
      IndexHarness.Client modest = harness.open(RING, BLUE);
      IndexHarness.Client greedy = harness.open(RING, GREEN);
      int ofModest = register(modest);
      int ofGreedy = register(greedy);
      // Slots on SSD have two pages: a file has as many slots as a slab.
      for (int key = 0; key < 2 * SLOTS - 1; key++) {
        assertEquals(Status.OK, put(modest, ofModest, key));
      }
      long before = there(modest, ofModest, 2 * SLOTS);
      assertTrue(before > SLOTS, "nothing was written to SSD: " + before);
      for (int key = 0; key < 20 * SLOTS; key++) {
        assertEquals(Status.OK, put(greedy, ofGreedy, key));
        harness.agent.checkInvariants();
      }
      assertEquals(before, there(modest, ofModest, 2 * SLOTS));
      assertTrue(there(greedy, ofGreedy, 20 * SLOTS) <= 4 * SLOTS);
    }
  }

  @Test
  void flushAll_byAnOperator_writesTheBlocksOfEachTenant() throws IOException, ProtocolViolation {
    try (IndexHarness harness =
        harness(4, new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK))) {
      IndexHarness.Client operator = harness.open(RING, Grant.ALL);
      for (Grant grant : List.of(OTHERS, BLUE, GREEN)) {
        IndexHarness.Client client = harness.open(RING, grant);
        int namespace = register(client);
        assertEquals(Status.OK, put(client, namespace, 1));
        client.send(Verb.FLUSH, RequestDescriptor.NAMESPACE_ALL, 0, 0);
        assertEquals(Status.DENIED, client.await().status());
      }
      operator.send(Verb.FLUSH, RequestDescriptor.NAMESPACE_ALL, 0, 0);
      IndexHarness.Answer flushed = operator.await();
      assertEquals(Status.OK, flushed.status());
      assertEquals(3, flushed.value());
      harness.agent.checkInvariants();
    }
  }

  @Test
  void reserve_manyThatWait_leaveOthersTheirShare() throws IOException, ProtocolViolation {
    try (IndexHarness harness = memory()) {
      IndexHarness.Client greedy = harness.open(1 << 20, GREEN);
      IndexHarness.Client modest = harness.open(RING, BLUE);
      int ofGreedy = register(greedy);
      int ofModest = register(modest);
      for (int key = 0; key < 2 * SLOTS; key++) {
        assertEquals(Status.OK, put(greedy, ofGreedy, key));
        assertEquals(Status.OK, ask(greedy, Verb.PIN, ofGreedy, key));
      }
      // All of these puts wait for a slot, as long as a slot may come free.
      int refused = 0;
      for (int key = 0; key < 256; key++) {
        greedy.sendKey(Verb.RESERVE, ofGreedy, 1000 + key);
        int ignored = harness.agent.doWork();
        if (greedy.hasAnswer()) {
          IndexHarness.Answer answer = greedy.take();
          assertEquals(Status.BUSY, answer.ids().isEmpty() ? answer.first() : Status.OK);
          refused++;
        }
      }
      assertTrue(refused > 100, refused + " of 256 were refused");
      assertEquals(Status.OK, put(modest, ofModest, 1));
    }
  }

  @Test
  void events_namespacesOfTenants_haveTheirTenantsInTheirNames() throws Exception {
    try (EventRing ring = new EventRing(1 << 16);
        IndexHarness harness =
            new IndexHarness(settings(0, new IndexHarness.NoPipeline()).events(ring))) {
      Map<String, Grant> owners = Map.of("blue/model", BLUE, "green/model", GREEN, "model", OTHERS);
      for (Map.Entry<String, Grant> owner : owners.entrySet()) {
        int id = register(harness.open(RING, owner.getValue()));
        assertEquals(owner.getKey(), requireNonNull(ring.name(id)).name());
      }
      // A namespace without a tenant can't pass for a tenant's.
      IndexHarness.Client other = harness.open(RING, OTHERS);
      int id = (int) other.registerAs("blue/model", IndexHarness.SLOT_BYTES).value();
      assertEquals("/blue/model", requireNonNull(ring.name(id)).name());
    }
  }

  @Test
  void admin_ofNoTenant_namesTenantsBlocksToo() throws Exception {
    try (IndexHarness harness = memory()) {
      IndexHarness.Client blue = harness.open(RING, BLUE);
      assertEquals(Status.OK, put(blue, register(blue), 1));
      IndexHarness.Client all = harness.open(1 << 20, Grant.ALL);
      assertEquals(Status.MISS, all.admin("inspect 0 0100000000000000 model"));
      assertEquals(Status.OK, all.admin("inspect 0 0100000000000000 blue/model"));
      assertEquals(Status.OK, all.admin("pin 0 0100000000000000 blue/model"));
      assertEquals(Status.OK, all.admin("unpin 0 0100000000000000 blue/model"));
      assertEquals(Status.MISS, all.admin("inspect 0 0100000000000000 green/model"));
      IndexHarness.Client ofBlue = harness.open(1 << 20, new Grant("b", Role.ADMIN, 1));
      assertEquals(Status.OK, ofBlue.admin("inspect 0 0100000000000000 model"));
      harness.close(ofBlue);
      IndexHarness.Client ofGreen = harness.open(1 << 20, new Grant("g", Role.ADMIN, 2));
      assertEquals(Status.MISS, ofGreen.admin("inspect 0 0100000000000000 blue/model"));
      harness.close(ofGreen);
      // A namespace without a tenant does not hide a tenant's.
      IndexHarness.Client other = harness.open(RING, OTHERS);
      int misleading = (int) other.registerAs("blue/model", IndexHarness.SLOT_BYTES).value();
      assertEquals(Status.OK, put(other, misleading, 2));
      assertEquals(Status.OK, all.admin("inspect 0 0100000000000000 blue/model"));
      assertEquals(Status.OK, all.admin("inspect 0 0200000000000000 /blue/model"));
    }
  }

  @Test
  void admin_ofATenant_hasOnlyItsOwnBlocksAndNamespaces() throws Exception {
    StubObjects objects = new StubObjects();
    try (IndexHarness harness =
        new IndexHarness(
            settings(4, new IndexHarness.NoPipeline()).objects(objects.parts("evicted")))) {
      IndexHarness.Client green = harness.open(RING, GREEN);
      assertEquals(Status.OK, put(green, register(green), 1));
      IndexHarness.Client all = harness.open(1 << 20, Grant.ALL);
      String ofGreen = fingerprint(all, "green");
      IndexHarness.Client blue = harness.open(1 << 20, new Grant("b", Role.ADMIN, 1));
      int ofBlue = register(blue);
      assertEquals(Status.OK, put(blue, ofBlue, 1));
      for (String command :
          List.of(
              "object remove-namespace " + ofGreen,
              "object gc",
              "object du",
              "object cancel",
              "drain on",
              "evict 1",
              "set ssd.scrub_bytes_per_second 1",
              "policy host fifo",
              "admission ssd all",
              "trace record 1 /tmp/never-written",
              "trace stop",
              "trace status",
              "reload",
              "config show",
              "threads",
              "nonsense")) {
        assertEquals(Status.DENIED, blue.admin(command), command);
      }
      assertEquals(Status.MISS, blue.admin("object remove-namespace green/model"));
      assertEquals(Status.MISS, blue.admin("object remove-namespace blue/model"));
      assertEquals(List.of(), objects.commands);
      assertEquals(Status.OK, blue.admin("object remove-namespace model"));
      assertEquals(List.of("remove-namespace " + fingerprint(blue, "blue")), objects.commands);
      for (String verb : List.of("inspect", "pin", "unpin")) {
        assertEquals(Status.OK, blue.admin(verb + " 0 0100000000000000 model"));
      }
      assertEquals(Status.OK, all.admin("object remove-namespace " + ofGreen));
      assertEquals(Status.OK, all.admin("policy host fifo"));
    }
  }

  /** The block is of the tenant's namespace. */
  private static String fingerprint(IndexHarness.Client asker, String tenant)
      throws ProtocolViolation {
    String before = "\"tenant\":\"" + tenant + "\",\"fingerprint\":\"";
    String stats = asker.stats();
    int at = stats.indexOf(before) + before.length();
    return stats.substring(at, at + 32);
  }

  @Test
  void flush_tenantWithoutSsdWhereOthersHaveSome_writesToTheObjectTier() throws Exception {
    StubObjects objects = new StubObjects();
    Pipeline ssd = new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK);
    try (IndexHarness harness =
        new IndexHarness(
            new IndexHarness.Settings(4, SLOTS)
                .checksums(new IndexHarness.NoPipeline(), IndexHarness.SLOT_BYTES)
                .ssd(1, ssd)
                .objects(objects.parts("evicted"))
                .tenants(
                    new TenantConfig("blue", List.of(), List.of(), 1, 0, 1),
                    new TenantConfig("green", List.of(), List.of(), 2, 1, 2)))) {
      for (Grant grant : List.of(BLUE, GREEN)) {
        IndexHarness.Client client = harness.open(RING, grant);
        int namespace = register(client);
        assertEquals(Status.OK, put(client, namespace, 1));
        client.send(Verb.FLUSH, namespace, 0, 0);
        IndexHarness.Answer flushed = client.await();
        assertEquals(Status.OK, flushed.status());
        assertEquals(1, flushed.value(), grant.name());
      }
      assertEquals(1, objects.asked, "green's block is on SSD");
    }
  }

  @Test
  void stats_ofATenant_tellOfItsOwnNamespacesOnly() throws IOException, ProtocolViolation {
    try (IndexHarness harness = memory()) {
      IndexHarness.Client blue = harness.open(1 << 20, BLUE);
      IndexHarness.Client green = harness.open(1 << 20, GREEN);
      IndexHarness.Client operator = harness.open(1 << 20, Grant.ALL);
      assertEquals(Status.OK, blue.registerAs("secret-name", IndexHarness.SLOT_BYTES).status());
      assertTrue(blue.stats().contains("secret-name"));
      assertFalse(green.stats().contains("secret-name"));
      assertFalse(green.stats().contains("\"blue\""));
      assertTrue(operator.stats().contains("secret-name"));
    }
  }

  @Test
  void trim_whatGoesBecomesObjectsFirst_goesAsFastAsThose() throws Exception {
    StubObjects objects = new StubObjects();
    Pipeline ssd = new IndexHarness.InlinePipeline(transfer -> transfer.status = Status.OK);
    try (IndexHarness harness =
        new IndexHarness(settings(64, 4, ssd).blocks(48).objects(objects.parts("evicted")))) {
      harness.agent.recover(List.of(List.of(rowsOfNobody(48))), 0);
      int rounds = 0;
      while (harness.directory().recordsOfTenant(Grant.NO_TENANT) > 12) {
        int ignored = harness.agent.doWork();
        harness.nowNs += 1_000_000;
        assertTrue(++rounds < 300, "it takes too long");
      }
      assertEquals(36, objects.asked, "no more than what is beyond the share");
      assertEquals(36, harness.counters.get(Counter.SPILLED));
      assertEquals(0, harness.counters.get(Counter.DROPPED));
      harness.agent.checkInvariants();
    }
  }
}
