package io.kvtier.daemon.index;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.daemon.index.core.Namespaces;
import io.kvtier.daemon.index.core.Tenants;
import io.kvtier.daemon.index.session.CompletionWriter;
import io.kvtier.daemon.index.verbs.Registry;
import io.kvtier.protocol.ProtocolViolation;
import io.kvtier.protocol.Status;
import io.kvtier.protocol.Verb;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** When a name can be registered with other properties, as an upgraded engine does. */
class NamespacesFreedTest {
  private static final String OLD = "name=model\ndtype=fp16";
  private static final String NEW = "name=model\ndtype=fp8";

  private static IndexHarness.Answer register(IndexHarness.Client client, String text)
      throws ProtocolViolation {
    client.sendText(Verb.REGISTER, IndexHarness.SLOT_BYTES, text);
    return client.work();
  }

  @Test
  void otherProperties_nobodyHasTheNameAndItHasNoBlock_makeANewNamespace()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(64, 0)) {
      IndexHarness.Client old = harness.open();
      long oldNumber = register(old, OLD).value();
      harness.close(old);
      IndexHarness.Client upgraded = harness.open();
      IndexHarness.Answer registered = register(upgraded, NEW);
      assertEquals(Status.OK, registered.status());
      assertNotEquals(oldNumber, registered.value());
      upgraded.send(Verb.CLEAR, (int) oldNumber, 0, 0);
      assertEquals(Status.NAMESPACE_UNKNOWN, upgraded.work().status());
      harness.agent.checkInvariants();
    }
  }

  @Test
  void otherProperties_aSessionHasTheName_areRefused() throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(64, 0)) {
      IndexHarness.Client old = harness.open();
      assertEquals(Status.OK, register(old, OLD).status());
      IndexHarness.Client upgraded = harness.open();
      assertEquals(Status.NAMESPACE_MISMATCH, register(upgraded, NEW).status());
      old.send(Verb.UNREGISTER, 0, 0, 0);
      assertEquals(Status.OK, old.work().status());
      assertEquals(Status.OK, register(upgraded, NEW).status());
      assertEquals(Status.NAMESPACE_MISMATCH, register(old, OLD).status());
    }
  }

  @Test
  void otherProperties_blocksAreThere_areRefusedUntilTheyAreCleared()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(64, 0)) {
      IndexHarness.Client old = harness.open();
      assertEquals(Status.OK, register(old, OLD).status());
      old.put(7, 0);
      harness.close(old);
      IndexHarness.Client upgraded = harness.open();
      assertEquals(Status.NAMESPACE_MISMATCH, register(upgraded, NEW).status());
      IndexHarness.Client operator = harness.open();
      assertEquals(Status.OK, register(operator, OLD).status());
      operator.send(Verb.CLEAR, 0, 0, 0);
      IndexHarness.Answer cleared = operator.await();
      assertEquals(Status.OK, cleared.status());
      assertEquals(1, cleared.value());
      harness.close(operator);
      assertEquals(Status.OK, register(upgraded, NEW).status());
      harness.agent.checkInvariants();
    }
  }

  @Test
  void otherProperties_aDeletedBlockIsStillLeased_areRefusedUntilItIsReleased()
      throws IOException, ProtocolViolation {
    try (IndexHarness harness = new IndexHarness(64, 0)) {
      IndexHarness.Client old = harness.open();
      assertEquals(Status.OK, register(old, OLD).status());
      old.put(7, 0);
      assertEquals(Status.OK, old.ask(Verb.ACQUIRE, 7));
      IndexHarness.Client upgraded = harness.open();
      old.send(Verb.CLEAR, 0, 0, 0);
      assertEquals(Status.OK, old.await().status());
      old.send(Verb.UNREGISTER, 0, 0, 0);
      assertEquals(Status.OK, old.work().status());
      assertEquals(Status.NAMESPACE_MISMATCH, register(upgraded, NEW).status());
      harness.close(old);
      assertEquals(Status.OK, register(upgraded, NEW).status());
      harness.agent.checkInvariants();
    }
  }

  @Test
  void difference_ofBlocksOfOtherSizes_alsoNamesThePropertyThatMakesThem() {
    Namespaces namespaces = new Namespaces(Tenants.NONE);
    Namespaces.Namespace known =
        namespaces.add(0, "model", 8, Map.of("name", "model", "dtype", "float32"));
    assertEquals(
        "dtype is 'float32' there, 'bfloat16' here, and block_bytes is 8 there, 4 here",
        Namespaces.difference(known, 4, Map.of("name", "model", "dtype", "bfloat16")));
    assertEquals(
        "block_bytes is 8 there, 4 here",
        Namespaces.difference(known, 4, Map.of("name", "model", "dtype", "float32")));
    assertNull(Namespaces.difference(known, 8, Map.of("name", "model", "dtype", "float32")));
  }

  @Test
  void refusal_saysWhatDiffersWhoHasTheNameAndWhatFreesIt() {
    Namespaces namespaces = new Namespaces(Tenants.NONE);
    String shared = "x".repeat(300);
    Namespaces.Namespace known =
        namespaces.add(0, "model", 8, Map.of("name", "model", "layout", shared + "16"));
    String difference =
        Namespaces.difference(known, 8, Map.of("name", "model", "layout", shared + "8"));
    String text =
        Registry.taken(known, String.valueOf(difference), 12, List.of("a, pid 1", "b, pid 2"));
    assertTrue(text.contains("xx16' there"), text);
    assertTrue(text.contains("xx8' here"), text);
    assertTrue(text.contains("12 blocks, 2 sessions (a, pid 1; b, pid 2)"), text);
    assertTrue(text.endsWith("kvtier clear --namespace=model"), text);
    assertTrue(text.length() < CompletionWriter.REFUSAL_BYTES_MAX - 64, text);
  }

  @Test
  void number_ofAForgottenNamespace_isNoOthers() {
    Namespaces namespaces = new Namespaces(Tenants.NONE);
    Namespaces.Namespace first = namespaces.add(0, "a", 8, Map.of("name", "a"));
    assertEquals(first.id(), namespaces.idOf(first.number()));
    namespaces.forget(first);
    Namespaces.Namespace second = namespaces.add(0, "b", 8, Map.of("name", "b"));
    assertEquals(first.id(), second.id());
    assertEquals(-1, namespaces.idOf(first.number()));
    assertEquals(second.id(), namespaces.idOf(second.number()));
    assertEquals(-1, namespaces.idOf(-1));
    assertEquals(-1, namespaces.idOf(Integer.MAX_VALUE));
    assertNull(namespaces.byFingerprint(first.high(), first.low()));
    assertEquals(second, namespaces.byFingerprint(second.high(), second.low()));
  }
}
