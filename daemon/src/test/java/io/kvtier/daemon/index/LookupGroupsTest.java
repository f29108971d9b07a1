package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.kvtier.protocol.Counter;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import org.junit.jupiter.api.Test;

/** LOOKUP_GROUPS: blocks of several namespaces in one request. */
final class LookupGroupsTest {
  /** Looks a key up in each of two namespaces. */
  private static IndexHarness.Answer lookup(
      IndexHarness.Client client, int first, int second, long key) throws ProtocolViolation {
    long numbers = Integer.toUnsignedLong(first) | (long) second << 32;
    client.sendWords(Verb.LOOKUP_GROUPS, 0, 8, 2, new long[] {key, key, numbers});
    return client.await();
  }

  @Test
  void lookup_ofTwoNamespaces_answersForEach() throws Exception {
    try (IndexHarness harness = new IndexHarness(8, IndexHarness.SLOT_BYTES)) {
      IndexHarness.Client client = harness.open(1 << 20);
      int all = client.registered("all");
      int window = client.registered("window");
      client.putIn(all, 1);
      IndexHarness.Answer answer = lookup(client, all, window, 1);
      assertEquals(Status.OK, answer.first());
      assertEquals(Status.MISS, answer.last());
      assertEquals(1, answer.run());
      answer = lookup(client, window, all, 1);
      assertEquals(Status.MISS, answer.first());
      assertEquals(Status.OK, answer.last());
      assertEquals(4, harness.counters.get(Counter.LOOKUP_BLOCKS));
      assertEquals(2, harness.counters.get(Counter.LOOKUP_HITS));
    }
  }

  @Test
  void lookup_inANamespaceThatTheSessionHasNotRegistered_showsNothingOfIt() throws Exception {
    try (IndexHarness harness = new IndexHarness(8, IndexHarness.SLOT_BYTES)) {
      IndexHarness.Client owner = harness.open(1 << 20);
      int hidden = owner.registered("hidden");
      owner.putIn(hidden, 1);
      IndexHarness.Client other = harness.open(1 << 20);
      int own = other.registered("own");
      IndexHarness.Answer answer = lookup(other, hidden, own, 1);
      assertEquals(Status.OK, answer.status());
      assertEquals(Status.NAMESPACE_UNKNOWN, answer.first());
      assertEquals(Status.MISS, answer.last());
      answer = lookup(other, own, -1, 1);
      assertEquals(Status.NAMESPACE_UNKNOWN, answer.last());
    }
  }

  @Test
  void lookup_whoseNumbersAreMissing_endsTheSession() throws Exception {
    try (IndexHarness harness = new IndexHarness(8, IndexHarness.SLOT_BYTES)) {
      IndexHarness.Client client = harness.open(1 << 20);
      client.sendWords(Verb.LOOKUP_GROUPS, 0, 8, 2, new long[] {1, 1});
      int ignored = harness.agent.doWork();
      assertEquals(Status.INVALID_ARGUMENT, client.endReason());
    }
  }
}
