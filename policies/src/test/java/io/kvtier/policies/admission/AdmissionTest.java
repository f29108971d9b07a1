package io.kvtier.policies.admission;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.kvtier.policies.AdmissionPolicies;
import io.kvtier.policies.AdmissionPolicy;
import io.kvtier.policies.AdmissionPolicy.Occasion;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

final class AdmissionTest {
  @ParameterizedTest
  @CsvSource({
    "all, INSERTED, 0, true, true",
    "all, EVICTED, 0, true, true",
    "evicted, INSERTED, 9, false, false",
    "evicted, USED, 9, false, false",
    "evicted, EVICTED, 0, true, true",
    "hot, INSERTED, 0, false, false",
    "hot, USED, 1, false, false",
    "hot, USED, 2, true, true",
    "hot, EVICTED, 1, false, true",
    "hot, EVICTED, 1, true, false",
    "hot:uses=5, USED, 4, false, false",
    "hot:uses=5, USED, 5, false, true",
  })
  void admits(String policy, Occasion occasion, int uses, boolean isFull, boolean expected) {
    assertEquals(expected, AdmissionPolicies.create(policy, 64).admits(occasion, 1, uses, isFull));
  }

  @ParameterizedTest
  @ValueSource(strings = {"all", "evicted", "hot:uses=1", "hot", "frequency", "frequency/all"})
  void listensTo_notListening_admitsNothing(String name) {
    AdmissionPolicy policy = AdmissionPolicies.create(name, 64);
    for (Occasion occasion : Occasion.values()) {
      int usesMax = occasion == Occasion.INSERTED ? 0 : 10;
      boolean admits = false;
      for (int uses = 0; uses <= usesMax; uses++) {
        admits |= policy.admits(occasion, 1, uses, false);
      }
      assertTrue(policy.listensTo(occasion) || !admits, name + " admits when " + occasion);
    }
    assertTrue(policy.listensTo(Occasion.EVICTED));
  }

  @Test
  void frequency_listensToAll() {
    AdmissionPolicy policy = AdmissionPolicies.create("frequency/evicted", 64);
    for (Occasion occasion : Occasion.values()) {
      assertTrue(policy.listensTo(occasion), "it counts what is " + occasion);
    }
  }

  @Test
  void frequency_keysSeenOnce_stayOutOfAFullTier() {
    AdmissionPolicy policy = AdmissionPolicies.create("frequency:times=2/evicted", 1024);
    assertFalse(policy.admits(Occasion.INSERTED, 7, 0, true));
    assertFalse(policy.admits(Occasion.EVICTED, 7, 0, true));
    assertTrue(policy.admits(Occasion.EVICTED, 7, 0, false));
    // The same key, put again after it had left.
    assertFalse(policy.admits(Occasion.INSERTED, 7, 0, true));
    assertTrue(policy.admits(Occasion.EVICTED, 7, 0, true));
  }

  @Test
  void frequency_longAgo_isForgotten_memoryIsFixed() {
    AdmissionPolicy policy = AdmissionPolicies.create("frequency:times=2/all", 64);
    long bytes = policy.metadataBytes();
    for (int i = 0; i < 3; i++) {
      policy.admits(Occasion.USED, -1, i, true);
    }
    assertTrue(policy.admits(Occasion.EVICTED, -1, 3, true));
    for (long key = 1; key < 5000; key++) {
      policy.admits(Occasion.INSERTED, key * 0x9E3779B97F4A7C15L, 0, true);
    }
    assertFalse(policy.admits(Occasion.EVICTED, -1, 3, true));
    assertEquals(bytes, policy.metadataBytes());
  }

  @Test
  void create_unknown_saysWhatThereIs() {
    String message =
        assertThrows(IllegalArgumentException.class, () -> AdmissionPolicies.create("some", 64))
            .getMessage();
    assertEquals(
        "no admission policy is named 'some'; there are all, evicted, frequency, hot", message);
  }
}
